#include "data/tokenizers/bpe/gpt2_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/tokenizers/bpe/byte_level.h"
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
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<unsigned char>(b);
      ids[utf8(stand_in(byte))] = unsigned(gpt2_order(byte));
    }
    for (const auto& [left, right] : merges) ids.emplace(left + right, unsigned(ids.size()));
    ids.emplace(end_of_text, unsigned(ids.size()));
  }
  json added = json::array();
  if (ids.is_object() && ids.contains(end_of_text))
    added.push_back({{"id", ids[end_of_text]}, {"content", end_of_text}, {"special", true}});
  json pairs = json::array();
  for (const auto& [left, right] : merges) pairs.push_back(json::array({left, right}));
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"added_tokens", added},
          {"pre_tokenizer", byte_level},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", std::move(ids)}, {"merges", std::move(pairs)}}}};
}

}  // namespace mxtape
