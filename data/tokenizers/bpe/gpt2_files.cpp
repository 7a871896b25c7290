#include "data/tokenizers/bpe/gpt2_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

using nlohmann::json;

std::vector<MergePair> read_merges_text(std::string_view text) {
  require_utf8(text);
  std::vector<MergePair> merges;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t blank = line.find(' ');
    const bool two =
        blank != line.npos && blank > 0 && blank + 1 < line.size() && line.find(' ', blank + 1) == line.npos;
    require(two, ExitCode::data, "line {}: {}; want two tokens with a blank between", number,
            shown_text(line));
    merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return merges;
}

json gpt2_tokenizer_json(const json& vocabulary, const std::vector<MergePair>& merges) {
  constexpr const char* end_of_text = "<|endoftext|>";
  json ids = vocabulary;
  if (ids.is_null()) {
    ids = json::object();
    for (int b = 0; b < 256; ++b)
      ids[to_stand_ins(std::string(1, char(b)))] = gpt2_order(static_cast<unsigned char>(b));
    for (const auto& [left, right] : merges) ids.emplace(left + right, unsigned(ids.size()));
    ids.emplace(end_of_text, unsigned(ids.size()));
  }
  json added = json::array();
  if (ids.is_object() && ids.contains(end_of_text))
    added.push_back({{"id", ids[end_of_text]}, {"content", end_of_text}, {"special", true}});
  json pairs = json::array();
  for (const auto& [left, right] : merges) pairs.push_back(json::array({left, right}));
  return byte_level_bpe("gpt2", std::move(ids), std::move(pairs), std::move(added));
}

json byte_level_bpe(const std::string& pattern, json ids, json merges, json added) {
  return bpe_file<json>(std::move(ids), std::move(merges), std::move(added), nullptr,
                        pre_tokenizer_of(pattern), {{"type", "ByteLevel"}});
}

json template_with(const std::string& token, std::int64_t id) {
  const auto part = [](const char* kind, const std::string& name) {
    return json{{kind, {{"id", name}, {"type_id", 0}}}};
  };
  const json before = part("SpecialToken", token), text = part("Sequence", "A");
  return {{"type", "TemplateProcessing"},
          {"single", json::array({before, text})},
          {"pair", json::array({before, text, part("Sequence", "B")})},
          {"special_tokens",
           {{token, {{"id", token}, {"ids", json::array({id})}, {"tokens", json::array({token})}}}}}};
}

}  // namespace mxtape
