// A token file. The first byte chooses: even, the other bytes are the file; odd, they say what a sealed file
// holds, as texts between line breaks: format, version, vocabulary, count, the tokenizer's JSON, hash (or
// "right"), and then the tokens' bytes. (A file with a seal and altered bytes of HDF5 is not made: the seal
// is there to keep such bytes from HDF5's parser.)
#include <cstring>
#include <sstream>
#include <vector>

#include "data/hdf5/hdf5.h"
#include "data/hdf5/seal.h"
#include "data/hdf5/token_file.h"
#include "tests/fuzz/target.h"

namespace mxtape::fuzz {
namespace {

/// Writes what the input tells to `path`.
void write_told(const std::string& input, const std::filesystem::path& path) {
  std::istringstream in(input);
  std::string lines[6];
  for (auto& line : lines) std::getline(in, line);
  std::string rest(std::istreambuf_iterator<char>(in), {});
  std::vector<std::uint16_t> tokens(rest.size() / 2);
  if (!tokens.empty()) std::memcpy(tokens.data(), rest.data(), 2 * tokens.size());
  const auto number = [](const std::string& text) {
    return std::int64_t(std::strtoll(text.c_str(), nullptr, 10));
  };
  const auto own = content_hash(std::as_bytes(std::span(tokens)));
  Hdf5Writer file(path);
  file.attribute("/", "format", lines[0]);
  file.attribute("/", "version", number(lines[1]));
  file.attribute("/", "vocabulary", number(lines[2]));
  file.attribute("/", "source", std::string("input"));
  const std::string parts = lines[4] + '\n' + own + '\n' + own;
  file.attribute("/", "xxh3-128",
                 lines[5] == "right" ? content_hash(std::as_bytes(std::span(parts))) : lines[5]);
  file.text("tokenizer", lines[4]);
  for (const char* name : {"train", "validation"}) {
    file.dataset_u16(name, tokens);
    file.attribute(name, "count", number(lines[3]));
    file.attribute(name, "xxh3-128", own);
  }
  file.commit(Seal::yes);
}

}  // namespace
}  // namespace mxtape::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  if (count == 0) return 0;
  return fuzz::taken_or_refused([&] {
    const std::filesystem::path file = fuzz::file_with(bytes + 1, count - 1);
    if (bytes[0] % 2) fuzz::write_told(fuzz::text_of(bytes + 1, count - 1), file);
    const TokenFile tokens = TokenFile::read(file);
    for (const Split* split : {&tokens.train, &tokens.validation})
      for (std::int64_t i = 0; i < split->count(); ++i)
        fuzz::promise((*split)[i] >= 0 && (*split)[i] < tokens.tokenizer.size(),
                      "tokens lie inside the vocabulary");
  });
}
