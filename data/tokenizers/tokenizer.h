#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/kind.h"

namespace mxtape {

/// Maps text to tokens and back. A value: copies share what they hold, and nothing changes it. The kinds are
/// in the table of tokenizer.cpp: characters, bytes, ids of a tokenizer that is not known here,
/// tokenizer.json with a BPE, SentencePiece models (docs/tokenizers.md).
class Tokenizer {
 public:
  enum class Kind : std::uint8_t { characters, bytes, ids, subwords };
  Tokenizer();  ///< bytes
  /// characters: the vocabulary is the code points of the texts, sorted. bytes: always 256.
  static Tokenizer from_texts(Kind, std::span<const std::string_view> texts);
  static Tokenizer from_text(Kind kind, std::string_view text) { return from_texts(kind, {&text, 1}); }
  /// Ids in [0, vocabulary) that nothing here can turn into text.
  static Tokenizer of_ids(std::int64_t vocabulary);
  /// From a token file or checkpoint: {"kind": "bytes"}, {"kind": "characters", "pieces": ["\n", " ", ...]},
  /// {"kind": "ids", "vocabulary": 50257}, {"kind": "tokenizer.json", "file": {...}} or
  /// {"kind": "sentencepiece", "model": base64}.
  static Tokenizer from_json(const std::string&);
  std::string to_json() const { return held_->to_json(); }
  /// From the text of a tokenizer.json, or the bytes of a SentencePiece model. Throws Error(data).
  static Tokenizer from_tokenizer_json(std::string_view text);
  static Tokenizer from_sentencepiece(std::string model);

  Kind kind() const { return kind_; }
  /// Equal tokens mean equal text. Of ids only their number is known.
  bool operator==(const Tokenizer& other) const {
    return held_ == other.held_ || (kind_ == other.kind_ && to_json() == other.to_json());
  }
  /// "65 characters", "256 bytes", "50257 ids", "50257 tokens, byte-level BPE".
  std::string text() const { return held_->text(); }
  /// xxh3-128 of to_json(): the same for the same vocabulary and rules, however they were spelled.
  std::string hash() const;
  /// Where another tokenizer first means something else: "token 3 is 'a' there and 'b' here"; "" if nowhere
  /// in the part that both have.
  std::string first_difference(const Tokenizer& there) const;
  std::int64_t size() const { return held_->size(); }
  /// Throws Error(data) with the first character that is not in the vocabulary, or not UTF-8, and its
  /// position. Ids: numbers with blanks or commas between; throws with the first word that is none.
  /// Uses all threads; their number changes no token.
  std::vector<std::int32_t> encode(std::string_view text,
                                   SpecialTokens specials = SpecialTokens::text) const {
    return held_->encode(text, specials);
  }
  /// The bytes that the tokens stand for; a part of a text may begin or end inside a character. Each id is
  /// followed by a blank, so that parts may be joined. Throws Error(data) for a token outside [0, size()).
  std::string decode(std::span<const std::int32_t> tokens) const;
  /// The same in parts: appends what `token` stands for after those that `state` has seen.
  void decode(std::int32_t token, DecodeState& state, std::string& text) const;
  std::vector<std::int32_t> template_before() const { return held_->template_before(); }
  /// Whether SpecialTokens::parse differs from text: a tokenizer.json has special tokens; characters, bytes,
  /// ids and SentencePiece models do not look for any.
  bool finds_specials() const { return held_->finds_specials(); }
  /// The token that stands for exactly this text, as "<|endoftext|>"; -1 if there is none.
  std::int32_t special(std::string_view content) const { return held_->special(content); }

 private:
  Tokenizer(Kind kind, std::shared_ptr<const TokenizerKind> held) : kind_(kind), held_(std::move(held)) {}

  Kind kind_;
  std::shared_ptr<const TokenizerKind> held_;
};

}  // namespace mxtape
