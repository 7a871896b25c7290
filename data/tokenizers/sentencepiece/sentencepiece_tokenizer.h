#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/kind.h"
#include "data/tokenizers/parts.h"
#include "data/tokenizers/sentencepiece/model_proto.h"
#include "data/tokenizers/sentencepiece/normalizer.h"
#include "data/tokenizers/sentencepiece/piece_merges.h"
#include "data/tokenizers/sentencepiece/unigram.h"

namespace mxtape {

/// A SentencePiece model, BPE or unigram. Control pieces are never found in a text and are decoded to
/// nothing, as in its library.
class SentencePieceTokenizer final : public TokenizerKind {
 public:
  /// From the bytes of a tokenizer.model. Throws Error(data).
  explicit SentencePieceTokenizer(std::string model);

  std::int64_t size() const override { return std::int64_t(proto_.pieces.size()); }
  std::string text() const override;
  /// {"kind": "sentencepiece", "model": base64}.
  std::string to_json() const override;
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const override;
  void decode(std::int32_t token, DecodeState&, std::string& text) const override;
  std::string shown(std::int32_t token) const override;
  std::int32_t special(std::string_view content) const override;

 private:
  /// Unknown pieces become bytes, or one unknown token for all in a row.
  void encode_part(std::string_view text, WordCache&, std::vector<std::int32_t>& tokens) const;

  std::string model_;
  SentencePieceProto proto_;
  PieceTrie kept_;  // user-defined symbols
  SentencePieceNormalizer normalizer_;
  std::optional<PieceMerges> merges_;
  std::optional<Unigram> unigram_;
  std::int32_t unknown_ = -1;
  std::int32_t of_byte_[256] = {};
  bool cuts_before_blanks_ = false;  // no token has a blank but at its front
};

}  // namespace mxtape
