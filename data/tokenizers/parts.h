#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/parallel.h"
#include "data/tokenizers/bpe/word_cache.h"

namespace mxtape {

/// A piece of a text that is encoded by itself: its tokens do not depend on what is around it.
struct TextPart {
  std::string_view text{};
  bool at_start = false;    ///< nothing was before it
  bool begins = true;       ///< an added token, or nothing, is before it
  std::int32_t token = -1;  ///< it is this token
};

/// Appends `text` as parts of about 64 KiB, cut where `may_cut(text, position)` says so.
template <class MayCut>
void append_parts(std::vector<TextPart>& parts, TextPart whole, const MayCut& may_cut) {
  constexpr std::size_t wanted = 1 << 16;
  while (whole.text.size() > 2 * wanted) {
    std::size_t at = wanted;
    while (at < whole.text.size() && !may_cut(whole.text, at)) ++at;
    if (at == whole.text.size()) break;
    parts.push_back(whole);
    parts.back().text = whole.text.substr(0, at);
    whole = {.text = whole.text.substr(at), .at_start = false, .begins = false};
  }
  parts.push_back(whole);
}

/// The tokens of all parts, one after the other, made on all threads. encode(part, cache, tokens) appends
/// those of one. The parts of a thread share a cache of words: a cold one costs, so shares are large.
template <class Encode>
std::vector<std::int32_t> encode_parts(const std::vector<TextPart>& parts, const Encode& encode) {
  constexpr std::size_t smallest_share = 1 << 20;
  std::size_t bytes = 0;
  for (const TextPart& part : parts) bytes += part.text.size();
  const std::size_t share = std::max(smallest_share, bytes / (4 * std::size_t(threads())) + 1);
  struct Share {
    std::size_t first, last, bytes;
    std::vector<std::int32_t> tokens{};
  };
  std::vector<Share> shares;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (shares.empty() || shares.back().bytes >= share) shares.push_back({i, i, 0});
    shares.back().last = i + 1;
    shares.back().bytes += parts[i].text.size();
  }
  parallel_for(std::int64_t(shares.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      Share& mine = shares[std::size_t(s)];
      WordCache cache(mine.bytes);
      mine.tokens.reserve(mine.bytes / 4);
      for (std::size_t i = mine.first; i < mine.last; ++i) {
        if (parts[i].token >= 0)
          mine.tokens.push_back(parts[i].token);
        else
          encode(parts[i], cache, mine.tokens);
      }
    }
  });
  if (shares.size() == 1) return std::move(shares[0].tokens);
  std::vector<std::int32_t> tokens;
  std::size_t count = 0;
  for (const Share& s : shares) count += s.tokens.size();
  tokens.reserve(count);
  for (const Share& s : shares) tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
  return tokens;
}

}  // namespace mxtape
