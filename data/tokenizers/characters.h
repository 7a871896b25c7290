#pragma once
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/kind.h"

namespace mxtape {

/// One token a UTF-8 character.
class CharacterTokenizer final : public TokenizerKind {
 public:
  /// Throws Error(data) for a piece that is not one character, or twice there.
  explicit CharacterTokenizer(std::vector<std::string> pieces);
  /// The code points of the texts, sorted. Throws Error(data) at the first byte that is not UTF-8.
  static CharacterTokenizer of_texts(std::span<const std::string_view> texts);

  std::int64_t size() const override { return std::int64_t(pieces_.size()); }
  std::string text() const override;
  std::string to_json() const override;
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const override;
  void decode(std::int32_t token, DecodeState&, std::string& text) const override {
    text += pieces_[std::size_t(token)];
  }
  std::string shown(std::int32_t token) const override;

 private:
  std::vector<std::string> pieces_;  // by token
  std::unordered_map<char32_t, std::int32_t> token_of_;
};

/// One token a byte: always 256.
class ByteTokenizer final : public TokenizerKind {
 public:
  std::int64_t size() const override { return 256; }
  std::string text() const override { return "256 bytes"; }
  std::string to_json() const override { return R"({"kind":"bytes"})"; }
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const override;
  void decode(std::int32_t token, DecodeState&, std::string& text) const override { text += char(token); }
  std::string shown(std::int32_t token) const override;
};

/// Ids of another program's tokenizer, of which only their number is known: text is decimal numbers.
class IdTokenizer final : public TokenizerKind {
 public:
  explicit IdTokenizer(std::int64_t vocabulary);
  std::int64_t size() const override { return ids_; }
  std::string text() const override;
  std::string to_json() const override;
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const override;
  void decode(std::int32_t token, DecodeState&, std::string& text) const override;
  std::string shown(std::int32_t token) const override { return std::to_string(token); }

 private:
  std::int64_t ids_;
};

}  // namespace mxtape
