#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/bpe/merges.h"
#include "data/tokenizers/text/rules.h"

namespace mxtape {

/// The model of a BPE: turns one word into tokens. Words become symbols, bytes or characters, which are
/// merged; symbols are ids.
class BpeModel {
 public:
  /// Throws Error(data) where a byte has no token though bytes are symbols or stand in for characters.
  explicit BpeModel(const BpeRules&);
  void encode(std::string_view word, std::vector<std::int32_t>& tokens) const;
  /// Where symbols are characters: whether U+2581 is a token, and no token has it after another sign. Cutting
  /// a word before each run of it then changes no token.
  bool may_cut_before_blanks() const { return cut_before_blanks_; }

 private:
  void add_characters(std::string_view word, std::vector<std::int32_t>& tokens) const;

  Merges merges_;
  bool byte_level_, byte_fallback_, fuse_unknown_, cut_before_blanks_ = false;
  std::int32_t unknown_;
  std::array<std::int32_t, 256> of_byte_{};                  // byte_level_, byte_fallback_
  std::unordered_map<char32_t, std::int32_t> of_character_;  // else
  std::unordered_map<std::string, std::int32_t> whole_;      // ignore_merges: words that are tokens
};

/// What SentencePiece and its heirs write for a blank: U+2581.
inline constexpr std::string_view blank_mark = "\u2581";
/// Whether the piece has no blank mark but at its front.
bool marks_lead(std::string_view piece);
/// Where the next word begins after `at`: at the first blank mark that follows another sign, or at the end.
std::size_t next_marked_word(std::string_view text, std::size_t at);

}  // namespace mxtape
