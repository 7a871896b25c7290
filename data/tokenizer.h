#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mxtape {

/// Maps text to tokens and back: one token a character (UTF-8 code point) or a byte.
class Tokenizer {
 public:
  enum class Kind : std::uint8_t { characters, bytes };
  Tokenizer();  ///< bytes
  /// characters: the vocabulary is the code points of `text`, sorted. bytes: always 256.
  static Tokenizer from_text(Kind, std::string_view text);
  /// From a token file or checkpoint: {"kind": "bytes"} or {"kind": "characters", "pieces": ["\n", " ",
  /// ...]}.
  static Tokenizer from_json(const std::string&);
  std::string to_json() const;

  Kind kind() const { return kind_; }
  std::int64_t size() const { return std::int64_t(pieces_.size()); }
  /// Throws Error(data) with the first character that is not in the vocabulary, or not UTF-8, and its
  /// position.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Throws Error(data) for a token outside [0, size()).
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  Tokenizer(Kind kind, std::vector<std::string> pieces);

  Kind kind_;
  std::vector<std::string> pieces_;                      // by token
  std::unordered_map<char32_t, std::int32_t> token_of_;  // characters only
};

/// Calls body(code point, position in bytes) for each character. Throws Error(data) with the position of the
/// first byte that is not UTF-8 (overlong forms, surrogates and values above U+10FFFF are not).
void for_each_character(std::string_view text, const std::function<void(char32_t, std::size_t)>& body);

}  // namespace mxtape
