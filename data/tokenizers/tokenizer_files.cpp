#include "data/tokenizers/tokenizer_files.h"

#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "core/files/in_file.h"
#include "core/files/status.h"
#include "core/text/short_lines.h"
#include "data/json/json_file.h"
#include "data/json/json_section.h"
#include "data/stand_in.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/bpe/gpt2_files.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// in_file(), also of what nlohmann throws.
template <class Read>
auto naming(const fs::path& path, const Read& read) {
  return in_file(path, [&] {
    try {
      return read();
    } catch (const nlohmann::json::exception& error) {
      fail(ExitCode::data, "{}", json_reason(error));
    }
  });
}

Tokenizer from_json_file(const fs::path& path) {
  return tokenizer_of_text(path, [&] {
    std::string text = read_whole_text(path);
    return require_no_stand_in(path, text, text.size()), text;
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

using Json = nlohmann::json;  // an ordered one looks a key up among all: vocabularies have 50,000

/// A BPE without merges: every symbol is a token.
Json without_merges(Json vocabulary, Json pre_tokenizer, Json decoder) {
  return bpe_file<Json>(std::move(vocabulary), Json::array(), Json::array(), nullptr,
                        std::move(pre_tokenizer), std::move(decoder));
}

/// No token has this text, so the tokenizers library throws, with it, where it meets another character.
/// Without an unk_token it would leave the character out.
constexpr const char* unknown_character = "<a character that this model does not know>";

Json file_of_characters(const Json& pieces) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < pieces.size(); ++id) vocabulary[pieces[id].get<std::string>()] = id;
  Json file = without_merges(std::move(vocabulary), nullptr, {{"type", "Fuse"}});
  file["model"]["unk_token"] = unknown_character;
  return file;
}

Json file_of_bytes() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[to_stand_ins(std::string(1, char(byte)))] = byte;
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return without_merges(std::move(vocabulary), byte_level, byte_level);
}

/// A file that was kept, in the words that the tokenizers library asks for.
Json for_other_readers(Json file) {
  for (const char* const key : {"truncation", "padding"}) file.emplace(key, nullptr);
  return file;
}

/// As read_tokenizer(), whatever else is in a folder.
Tokenizer from_files(const fs::path& path) {
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

/// Where no tokenizer.json holds all: no other file of the folder adds tokens, or makes GPT-2's files, which
/// do not say how a text is cut, those of another class.
void require_no_more(const Tokenizer& tokenizer, const fs::path& folder) {
  const auto look_at = [&](const char* name, const auto& look) {
    if (is_there(folder / name)) naming(folder / name, [&] { look(Json(read_json_file(folder / name))); });
  };
  const auto has = [&](const std::string& content, std::int64_t id) {
    require(id < tokenizer.size(), ExitCode::data,
            "adds {} with id {} to a tokenizer of {} tokens; want a tokenizer.json that has it",
            shown_text(content), id, tokenizer.size());
  };
  look_at("added_tokens.json", [&](const Json& added) {
    for (const auto& [content, id] : added.items()) has(content, JsonSection::integer_of(id, content));
  });
  look_at("tokenizer_config.json", [&](Json config) {
    for (auto key = config.begin(); key != config.end();) key = key->is_null() ? config.erase(key) : ++key;
    const Json added = config.value("added_tokens_decoder", Json::object());
    for (const auto& [id, token] : added.items()) has(token.at("content"), std::atoll(id.c_str()));
    const auto name = config.value("tokenizer_class", std::string("GPT2Tokenizer"));
    const bool blank = config.value("add_prefix_space", false), bare = is_there(folder / "merges.txt");
    require(!bare || (name.starts_with("GPT2Tokenizer") && !blank), ExitCode::data,
            "tokenizer_class = {}, add_prefix_space = {}; vocab.json and merges.txt are read as GPT-2's, "
            "without a blank in front; want a tokenizer.json",
            shown_text(name), blank);
  });
}

}  // namespace

Tokenizer read_tokenizer(const fs::path& path) {
  Tokenizer tokenizer = from_files(path);
  if (is_folder(path) && !is_there(path / "tokenizer.json")) require_no_more(tokenizer, path);
  return tokenizer;
}

Tokenizer tokenizer_of_text(const fs::path& path, const std::function<std::string()>& read) {
  return naming(path, [&] {
    const std::string text = read();
    // Characters and bytes, as they are exported.
    if (text.find("\"merges\": []") != std::string::npos || text.find("\"merges\":[]") != std::string::npos)
      if (auto plain = plain_tokenizer_of(parse_json_strictly(text))) return *plain;
    return Tokenizer::from_tokenizer_json(text);
  });
}

std::string tokenizer_json_of(const Tokenizer& tokenizer) {
  const Json held = Json::parse(tokenizer.to_json());
  const auto kind = held.at("kind").get<std::string>();
  if (kind == "characters") return file_of_characters(held.at("pieces")).dump(2);
  if (kind == "bytes") return file_of_bytes().dump(2);
  if (kind == "tokenizer.json") return for_other_readers(held.at("file")).dump(2);
  return "";
}

std::optional<Tokenizer> plain_tokenizer_of(const nlohmann::json& file) {
  const auto model = file.find("model");
  if (model == file.end() || !model->is_object() || !model->value("merges", nlohmann::json()).is_array() ||
      !model->value("merges", nlohmann::json()).empty() ||
      !model->value("vocab", nlohmann::json()).is_object())
    return {};
  const auto same = [&](const Tokenizer& tokenizer) {
    auto ours = nlohmann::json::parse(tokenizer_json_of(tokenizer));
    // Files may leave unknown characters out: here they are an error in any case.
    if (model->value("unk_token", nlohmann::json()).is_null()) ours["model"]["unk_token"] = nullptr;
    return ours == file;
  };
  if (const Tokenizer bytes; same(bytes)) return bytes;
  const auto& vocabulary = (*model)["vocab"];
  nlohmann::json pieces(vocabulary.size(), "");
  for (const auto& [piece, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= pieces.size()) return {};
    pieces[id.get<std::size_t>()] = piece;
  }
  try {
    const Tokenizer characters =
        Tokenizer::from_json(nlohmann::json{{"kind", "characters"}, {"pieces", pieces}}.dump());
    return same(characters) ? std::optional(characters) : std::nullopt;
  } catch (const Error&) {  // pieces of several characters
    return {};
  }
}

std::vector<std::string> files_of_tokenizer(const fs::path& folder_or_file) {
  std::error_code error;
  const bool is_folder = fs::is_directory(folder_or_file, error);
  std::vector<std::string> files{folder_or_file.string()};
  for (const auto name : tokenizer_file_names)
    files.push_back(((is_folder ? folder_or_file : folder_or_file.parent_path()) / name).string());
  return files;
}

}  // namespace mxtape
