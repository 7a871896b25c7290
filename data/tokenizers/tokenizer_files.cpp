#include "data/tokenizers/tokenizer_files.h"

#include <optional>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/status.h"
#include "core/text/json_reason.h"
#include "data/json/json_file.h"
#include "data/json/json_section.h"
#include "data/stand_in.h"
#include "data/tokenizers/bpe/gpt2_files.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_forms.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// Runs read() and puts the file's name in front of what it throws.
template <class Read>
auto naming(const fs::path& path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool named = text.starts_with(path.string());
    fail(error.code(), "{}{}", named ? "" : path.string() + ": ", text);
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::data, "{}: {}", path.string(), json_reason(error));
  }
}

Tokenizer from_json_file(const fs::path& path) {
  return naming(path, [&] {
    const std::string text = read_whole_text(path);
    require_no_stand_in(path, text, text.size());
    // Characters and bytes, as they are exported.
    if (text.find("\"merges\": []") != std::string::npos || text.find("\"merges\":[]") != std::string::npos)
      if (auto plain = plain_tokenizer_of(parse_json_strictly(text))) return *plain;
    return Tokenizer::from_tokenizer_json(text);
  });
}

Tokenizer from_model_file(const fs::path& path) {
  return naming(path, [&] {
    std::string bytes = read_whole_text(path);
    require_no_stand_in(path, bytes, bytes.size());
    const auto line = std::string_view(bytes).substr(0, bytes.find('\n'));
    const bool tiktoken = line.size() < 200 && line.ends_with(" 0") && first_bad_byte(line) == line.size();
    require(!tiktoken, ExitCode::data,
            "lines of base64 and rank are tiktoken's; give the tokenizer.json that is published beside it");
    return Tokenizer::from_sentencepiece(std::move(bytes));
  });
}

Tokenizer from_gpt2_files(const std::optional<fs::path>& vocabulary, const fs::path& merges) {
  const auto lines = naming(merges, [&] { return read_merges_text(read_whole_text(merges)); });
  if (!vocabulary)
    return naming(merges,
                  [&] { return Tokenizer::from_tokenizer_json(gpt2_tokenizer_json({}, lines).dump()); });
  return naming(*vocabulary, [&] {
    const auto ids = read_json_file(*vocabulary);
    (void)JsonSection(ids, vocabulary->string());  // an object
    return Tokenizer::from_tokenizer_json(gpt2_tokenizer_json(ids, lines).dump());
  });
}

}  // namespace

Tokenizer read_tokenizer(const fs::path& path) {
  require(is_there(path), ExitCode::data, "{}: no such file or folder; want a tokenizer", path.string());
  const auto file = [&](const char* name) { return is_there(path / name); };
  if (is_folder(path)) {
    if (file("tokenizer.json")) return from_json_file(path / "tokenizer.json");
    if (file("vocab.json") && file("merges.txt"))
      return from_gpt2_files(path / "vocab.json", path / "merges.txt");
    if (file("encoder.json") && file("vocab.bpe"))
      return from_gpt2_files(path / "encoder.json", path / "vocab.bpe");
    if (file("tokenizer.model")) return from_model_file(path / "tokenizer.model");
    if (file("merges.txt")) return from_gpt2_files({}, path / "merges.txt");
    if (file("vocab.bpe")) return from_gpt2_files({}, path / "vocab.bpe");
    fail(ExitCode::data,
         "{}: no tokenizer in this folder; want tokenizer.json, vocab.json with merges.txt, or "
         "tokenizer.model",
         path.string());
  }
  if (path.extension() == ".model") return from_model_file(path);
  if (path.filename() == "vocab.json") return from_gpt2_files(path, path.parent_path() / "merges.txt");
  if (path.extension() == ".txt" || path.extension() == ".bpe") return from_gpt2_files({}, path);
  return from_json_file(path);
}

}  // namespace mxtape
