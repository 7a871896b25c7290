#include "data/tokenizers/bpe/word_counts.h"

#include <vector>

#include "core/parallel.h"
#include "data/tokenizers/parts.h"

namespace mxtape {
namespace {

bool may_cut(std::string_view text, std::size_t at) {
  const char before = char(text[at - 1] | 0x20);
  return before >= 'a' && before <= 'z' && (text[at] == ' ' || text[at] == '\n');
}

}  // namespace

std::unordered_map<std::string_view, std::int64_t> count_words(std::span<const std::string_view> texts,
                                                               Scanner scanner) {
  std::vector<TextPart> parts;
  for (const auto text : texts) append_parts(parts, {.text = text}, may_cut);
  using Counts = std::unordered_map<std::string_view, std::int64_t>;
  const std::int64_t shares = std::min<std::int64_t>(threads(), std::int64_t(parts.size()));
  std::vector<Counts> counts(std::size_t(std::max<std::int64_t>(shares, 1)));
  // Each share takes every shares-th part: sums do not depend on who counted what.
  parallel_for(shares, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s)
      for (std::size_t i = std::size_t(s); i < parts.size(); i += std::size_t(shares)) {
        const std::string_view text = parts[i].text;
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t next = scanner(text, at);
          ++counts[std::size_t(s)][text.substr(at, next - at)];
          at = next;
        }
      }
  });
  for (std::size_t s = 1; s < counts.size(); ++s)
    for (const auto& [word, count] : counts[s]) counts[0][word] += count;
  return std::move(counts[0]);
}

}  // namespace mxtape
