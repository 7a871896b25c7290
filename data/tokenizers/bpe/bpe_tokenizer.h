#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/tokenizers/bpe/added_tokens.h"
#include "data/tokenizers/bpe/bpe_model.h"
#include "data/tokenizers/kind.h"
#include "data/tokenizers/parts.h"
#include "data/tokenizers/text/splitter.h"

namespace mxtape {

/// A tokenizer.json with a BPE model: normalizer, splitter, model and decoder in a row.
class BpeTokenizer final : public TokenizerKind {
 public:
  /// From a tokenizer.json; throws Error(data) as read_tokenizer_json.
  explicit BpeTokenizer(nlohmann::json file);

  std::int64_t size() const override { return std::int64_t(bytes_.size()); }
  std::string text() const override;
  /// {"kind": "tokenizer.json", "file": {...}}.
  std::string to_json() const override;
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const override;
  void decode(std::int32_t token, DecodeState&, std::string& text) const override;
  std::string shown(std::int32_t token) const override;
  std::vector<std::int32_t> template_before() const override { return before_; }
  bool finds_specials() const override { return true; }
  std::int32_t special(std::string_view content) const override { return added_.find(content); }

 private:
  explicit BpeTokenizer(const BpeRules& rules, std::string file);
  std::string normalized(const TextPart&) const;
  void encode_part(const TextPart&, WordCache&, std::vector<std::int32_t>& tokens) const;
  bool may_cut(std::string_view text, std::size_t at) const;

  std::string file_;  // in its canonical spelling
  std::vector<NormalizerStep> normalizer_;
  Splitter splitter_;
  BpeModel model_;
  AddedTokens added_;
  DecodeRules decoder_;
  std::vector<std::string> bytes_;  // by id: what a token stands for
  std::vector<std::int32_t> before_;
  bool byte_level_, cuts_anywhere_;
};

}  // namespace mxtape
