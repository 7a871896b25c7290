#pragma once
#include <nlohmann/json_fwd.hpp>
#include <utility>

#include "data/tokenizers/text/rules.h"

namespace mxtape {

/// The rules of a tokenizer.json of Hugging Face's tokenizers, version 1.0, with a BPE model. Throws
/// Error(data) with the path of what is broken or not understood: docs/tokenizers.md has the table.
BpeRules read_tokenizer_json(const nlohmann::json& file);

/// The same file in the one spelling that is kept and compared: merges as pairs, all keys of the model,
/// defaults written out, no padding and truncation. `file` was read without error.
nlohmann::json canonical_tokenizer_json(nlohmann::json file);

// Its parts, in the order in which they are read:
void read_model(const nlohmann::json& model, const nlohmann::json* added_tokens, BpeRules&);
void read_normalizer(const nlohmann::json& normalizer, const std::string& path, BpeRules&);
void read_pre_tokenizer(const nlohmann::json& pre_tokenizer, const std::string& path, BpeRules&);
void read_post_processor(const nlohmann::json& post_processor, const std::string& path, BpeRules&);
void read_decoder(const nlohmann::json& decoder, const std::string& path, BpeRules&);

/// The pre_tokenizer of a byte-level BPE that cuts by a known pattern: gpt2, llama3, qwen2.
nlohmann::ordered_json pre_tokenizer_of(const std::string& pattern);

/// A tokenizer.json of a BPE with every key that the tokenizers library asks for, in its order.
template <class Json>
Json bpe_file(Json vocabulary, Json merges, Json added, Json normalizer, Json pre_tokenizer, Json decoder) {
  Json model{{"type", "BPE"},
             {"dropout", nullptr},
             {"unk_token", nullptr},
             {"continuing_subword_prefix", nullptr},
             {"end_of_word_suffix", nullptr},
             {"fuse_unk", false},
             {"byte_fallback", false},
             {"ignore_merges", false}};
  model["vocab"] = std::move(vocabulary);
  model["merges"] = std::move(merges);
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

}  // namespace mxtape
