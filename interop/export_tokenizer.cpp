#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "core/text/base64.h"
#include "data/json/json_file.h"
#include "data/tokenizers/tokenizer_files.h"
#include "interop/export.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The text of a special token, as configs of tokenizers name them.
void put_special(Json& config, const char* key, const nlohmann::json& file, std::optional<std::int64_t> id) {
  if (!id || config.contains(key) || !file.contains("added_tokens") || !file["added_tokens"].is_array())
    return;
  for (const auto& token : file["added_tokens"])
    if (token.value("id", std::int64_t(-1)) == *id) config[key] = token.value("content", "");
}

/// transformers 5 builds a model's own class anew from vocabulary and merges and forgets the file's rules;
/// under this name it keeps them.
Json tokenizer_config(const TokenizerFiles& came, const nlohmann::json& file, const ModelFacts& model) {
  Json config;
  const bool has = came.has("tokenizer_config.json");
  if (has) config = Json::parse(read_json_file(came.folder / "tokenizer_config.json").dump());
  if (!config.is_object()) config = Json::object();
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config.erase("auto_map");  // code that would be fetched and run
  if (!has) {
    config["clean_up_tokenization_spaces"] = false;  // else version 4 takes blanks away when it decodes
    config["model_max_length"] = model.positions;
    put_special(config, "bos_token", file, model.bos);
    put_special(config, "eos_token", file,
                model.eos.empty() ? std::nullopt : std::optional(model.eos.front()));
    put_special(config, "pad_token", file, model.pad);
  }
  return config;
}

}  // namespace

void write_tokenizer_files(const fs::path& folder, const TokenizerFiles& came, const ModelFacts& model) {
  for (const auto& name : came.names) write_atomically(folder / name, read_whole(came.folder / name));
  std::string text;
  if (came.has("tokenizer.json")) {
    text = read_json_file(came.folder / "tokenizer.json").dump();
  } else if (text = tokenizer_json_of(came.tokenizer); !text.empty()) {
    write_atomically(folder / "tokenizer.json", text + "\n");
  }
  if (!text.empty()) {
    const Json config = tokenizer_config(came, nlohmann::json::parse(text), model);
    write_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
    return;
  }
  const auto held = nlohmann::json::parse(came.tokenizer.to_json());
  if (came.has("tokenizer.model") || held.value("kind", "") != "sentencepiece") return;
  const auto bytes = from_base64(held.at("model").get<std::string>());
  require(bytes.has_value(), "export: the tokenizer's model is no base64");
  write_atomically(folder / "tokenizer.model", *bytes);
  write_atomically(folder / "tokenizer_config.json",
                   Json{{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}}.dump(2) + "\n");
}

}  // namespace mxtape
