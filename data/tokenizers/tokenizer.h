#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mxtape {

/// Maps text to tokens and back: one token a character (UTF-8 code point) or a byte. Where another program's
/// tokenizer made the tokens, text is their ids as decimal numbers.
class Tokenizer {
 public:
  enum class Kind : std::uint8_t { characters, bytes, ids };
  Tokenizer();  ///< bytes
  /// characters: the vocabulary is the code points of the texts, sorted. bytes: always 256.
  static Tokenizer from_texts(Kind, std::span<const std::string_view> texts);
  static Tokenizer from_text(Kind kind, std::string_view text) { return from_texts(kind, {&text, 1}); }
  /// Ids in [0, vocabulary) that nothing here can turn into text.
  static Tokenizer of_ids(std::int64_t vocabulary);
  /// From a token file or checkpoint: {"kind": "bytes"}, {"kind": "characters", "pieces": ["\n", " ", ...]}
  /// or
  /// {"kind": "ids", "vocabulary": 50257}.
  static Tokenizer from_json(const std::string&);
  std::string to_json() const;

  Kind kind() const { return kind_; }
  /// Equal tokens mean equal text. Of ids only their number is known.
  bool operator==(const Tokenizer& other) const {
    return kind_ == other.kind_ && ids_ == other.ids_ && pieces_ == other.pieces_;
  }
  /// "65 characters", "256 bytes", "50257 ids".
  std::string text() const;
  /// Where another tokenizer first means something else: "token 3 is 'a' there and 'b' here"; "" if nowhere
  /// in the part that both have.
  std::string first_difference(const Tokenizer& there) const;
  std::int64_t size() const { return kind_ == Kind::ids ? ids_ : std::int64_t(pieces_.size()); }
  /// Throws Error(data) with the first character that is not in the vocabulary, or not UTF-8, and its
  /// position. Ids: numbers with blanks or commas between; throws with the first word that is none.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Each id is followed by a blank, so that parts may be joined. Throws Error(data) for a token outside
  /// [0, size()).
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  Tokenizer(Kind kind, std::vector<std::string> pieces);

  std::vector<std::int32_t> encode_ids(std::string_view text) const;

  Kind kind_;
  std::int64_t ids_ = 0;                                 // ids only: their number
  std::vector<std::string> pieces_;                      // by token; none for ids
  std::unordered_map<char32_t, std::int32_t> token_of_;  // characters only
};

/// Calls body(code point, position in bytes) for each character. Throws Error(data) with the position of the
/// first byte that is not UTF-8 (overlong forms, surrogates and values above U+10FFFF are not).
void for_each_character(std::string_view text, const std::function<void(char32_t, std::size_t)>& body);

}  // namespace mxtape
