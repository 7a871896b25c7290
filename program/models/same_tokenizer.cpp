#include "program/models/same_tokenizer.h"

#include "core/error.h"
#include "core/text/program_name.h"

namespace mxtape {

void require_same_tokenizer(const CheckpointHeader& header, const std::filesystem::path& checkpoint,
                            const TokenFile& data, const std::string& data_file) {
  require_same_tokenizer(header.tokenizer, checkpoint, "--tokenizer-of " + shell_quoted(checkpoint.string()),
                         data, data_file);
}

void require_same_tokenizer(const Tokenizer& there, const std::filesystem::path& file,
                            const std::string& option, const TokenFile& data, const std::string& data_file) {
  const Tokenizer& here = data.tokenizer;
  if (here == there) return;
  const std::string difference = here.first_difference(there);
  const std::string remedy =
      there.kind() == Tokenizer::Kind::ids
          ? "want ids of the same tokenizer"
          : fmt::format("prepare the text with that one, `{} prepare TEXT {} --out FILE`", program_name(),
                        option);
  fail(ExitCode::data, "{}: its tokenizer ({}) is not the one that {} was trained with ({}){}; {}", data_file,
       here.text(), file.string(), there.text(), difference.empty() ? "" : ": " + difference, remedy);
}

}  // namespace mxtape
