#include "data/tokenizers/bpe/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "data/tokenizers/bpe/json_section.h"

namespace mxtape {

using nlohmann::json;
namespace {

/// Writes defaults out, so that files that leave them out are the same, and other readers see them.
void spell_out(json& part) {
  if (part.is_array())
    for (json& one : part) spell_out(one);
  if (!part.is_object()) return;
  const auto set = [&](std::initializer_list<std::pair<const char*, bool>> keys) {
    for (const auto& [key, value] : keys)
      if (!part.contains(key)) part[key] = value;
  };
  if (part.value("type", "") == "ByteLevel")
    set({{"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}});
  for (const char* const inner : {"pretokenizers", "decoders", "processors", "normalizers"})
    if (part.contains(inner)) spell_out(part[inner]);
}

}  // namespace

json parse_json_strictly(std::string_view text) {
  constexpr int deepest = 16;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    require(depth <= deepest, ExitCode::data, "JSON nested deeper than {}", deepest);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key)
      require(keys.back().insert(value.get<std::string>()).second, ExitCode::data,
              "the key {} occurs twice in one object", shown_text(value.get_ref<const std::string&>()));
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}", error.what());
  }
}

BpeRules read_tokenizer_json(const json& file) {
  BpeRules rules;
  JsonSection section(file, "tokenizer.json");
  if (const auto version = section.text_or("version", "1.0"); version != "1.0")
    section.refuse("version", version, "1.0");
  section.ignore("truncation");  // a trainer cuts its own windows
  section.ignore("padding");
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

  if (added)
    for (const json& token : *added)
      require(!token.value("normalized", false) || rules.normalizer.empty(), ExitCode::data,
              "tokenizer.json.added_tokens: {} has normalized = true beside a normalizer; mxtape finds added "
              "tokens in the text as it is",
              shown_text(token.value("content", "")));
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
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) spell_out(file[key]);
  if (file["added_tokens"].is_array())
    for (json& token : file["added_tokens"])
      for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"})
        token.emplace(key, false);
  json& model = file["model"];
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    model.emplace(key, nullptr);
  for (const char* key : {"fuse_unk", "byte_fallback", "ignore_merges"}) model.emplace(key, false);
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
