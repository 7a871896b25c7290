#pragma once
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace mxtape {

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

}  // namespace mxtape
