#pragma once
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/parallel.h"

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

/// The tokens of words that were encoded a moment ago. One slot per hash: a new word replaces an old one, so
/// memory is bounded and nothing is ever moved. Not for several threads at once.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 30, most_tokens = 8, most_words = 1 << 16;

  /// For a text of so many bytes: small texts do not pay for clearing what they never use.
  explicit WordCache(std::size_t bytes)
      : slots_(std::bit_ceil(std::min(most_words, std::max<std::size_t>(bytes / 8, 16)))) {}

  /// Appends the tokens of `word`, which encode(word, tokens) appends where they are not known yet.
  template <class Encode>
  void append(std::string_view word, std::vector<std::int32_t>& tokens, const Encode& encode) {
    if (word.size() > longest_word) return encode(word, tokens);
    Slot& slot = slots_[XXH3_64bits(word.data(), word.size()) & (slots_.size() - 1)];
    if (slot.length == word.size() && slot.count > 0 &&
        std::memcmp(slot.word, word.data(), word.size()) == 0) {
      tokens.insert(tokens.end(), slot.tokens, slot.tokens + slot.count);
      return;
    }
    const std::size_t before = tokens.size();
    encode(word, tokens);
    const std::size_t count = tokens.size() - before;
    if (count == 0 || count > most_tokens) return;
    slot.length = std::uint8_t(word.size());
    slot.count = std::uint8_t(count);
    std::memcpy(slot.word, word.data(), word.size());
    std::memcpy(slot.tokens, tokens.data() + before, count * sizeof(std::int32_t));
  }

 private:
  struct Slot {
    std::uint8_t length, count;
    char word[longest_word];
    std::int32_t tokens[most_tokens];
  };
  static_assert(sizeof(Slot) == 64);  // a cache line
  std::vector<Slot> slots_;
};

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
