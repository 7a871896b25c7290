#include "data/tokenizers/bpe/tokenizer_json.h"
#include "core/error.h"

#include "data/json/json_section.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

using nlohmann::json;
namespace {

/// Null counts as absent.
void set_default(json& object, const char* key, const json& value) {
  if (json& place = object[key]; place.is_null()) place = value;
}

/// Writes defaults out, so that files that leave them out are the same, and other readers see them.
/// `prefix`: whether a ByteLevel step that does not say so puts a blank in front.
void spell_out(json& part, bool prefix) {
  if (part.is_array())
    for (json& one : part) spell_out(one, prefix);
  if (!part.is_object()) return;
  if (part["type"] == "ByteLevel") {
    set_default(part, "add_prefix_space", prefix);
    for (const char* key : {"trim_offsets", "use_regex"}) set_default(part, key, true);
  }
  for (const char* const inner : {"pretokenizers", "decoders", "processors", "normalizers"})
    if (part.contains(inner)) spell_out(part[inner], prefix);
}

}  // namespace

BpeRules read_tokenizer_json(const json& file) {
  BpeRules rules;
  JsonSection section(file, "tokenizer.json");
  if (const auto version = section.text_or("version", "1.0"); version != "1.0")
    section.refuse("version", "1.0");
  section.ignore({"truncation", "padding"});  // a trainer cuts its own windows
  const json* const added = section.find("added_tokens");
  read_model(section.at("model"), added, rules);
  if (const json* const found = section.find("normalizer"))
    read_normalizer(*found, section.path("normalizer"), rules);
  if (const json* const found = section.find("pre_tokenizer"))
    read_pre_tokenizer(*found, section.path("pre_tokenizer"), rules);
  if (const json* const found = section.find("post_processor"))
    read_post_processor(*found, section.path("post_processor"), rules);
  if (const json* const found = section.find("decoder")) read_decoder(*found, section.path("decoder"), rules);
  section.done();

  for (const AddedToken& token : rules.added)
    require(!token.normalized || rules.normalizer.empty(), ExitCode::data,
            "tokenizer.json.added_tokens: {} has normalized = true beside a normalizer; mxtape finds added "
            "tokens in the text as it is",
            shown_text(token.content));
  rules.byte_level = !rules.splitter.empty() && rules.splitter.back().kind == SplitStep::Kind::byte_level;
  require(rules.byte_level || rules.byte_fallback || rules.unknown >= 0, ExitCode::data,
          "tokenizer.json: no ByteLevel pre-tokenizer, no byte_fallback and no unk_token: most characters "
          "would vanish");
  return rules;
}

json canonical_tokenizer_json(json file) {
  file.erase("truncation");
  file.erase("padding");
  for (const char* key : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
    file.emplace(key, nullptr);
  file.emplace("version", "1.0");
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"})
    spell_out(file[key], key == std::string_view("pre_tokenizer"));
  if (file["added_tokens"].is_array())
    for (json& token : file["added_tokens"])
      for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"})
        set_default(token, key, false);
  json& model = file["model"];
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    model.emplace(key, nullptr);
  for (const char* key : {"fuse_unk", "byte_fallback", "ignore_merges"}) set_default(model, key, false);
  model["type"] = "BPE";
  for (json& merge : model["merges"]) {
    if (!merge.is_string()) continue;
    const auto text = merge.get<std::string>();
    const auto blank = text.find(' ');
    merge = {text.substr(0, blank), text.substr(blank + 1)};
  }
  return file;
}

}  // namespace mxtape
