#pragma once
#include <functional>
#include <span>
#include <vector>

#include "nn/model.h"

namespace mxtape {

struct SampleOptions {
  std::int64_t tokens = 200;
  float temperature = 1;   ///< logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;  ///< only the k likeliest tokens may be drawn; 0: all
  /// Only tokens below it may be drawn: those that the tokenizer knows, of a model whose vocabulary is
  /// padded. 0: all.
  std::int64_t tokens_known = 0;
  std::uint64_t seed = 1;
  PassKey pass{};                                      ///< as EvaluateOptions::pass
  std::function<void(std::int32_t token)> on_token{};  ///< called as soon as a token is known
};

/// Draws `tokens` tokens one after the other, each from the model's distribution after the last `context`
/// ones: the text may be longer than the context. `prompt` must hold at least one token. The same seed gives
/// the same text. Returns the new tokens.
std::vector<std::int32_t> sample(Backend&, Model&, std::span<const std::int32_t> prompt,
                                 const SampleOptions&);

/// One draw: `logits` become probabilities, `uniform` in [0, 1) picks. Ties in top_k and in the maximum go to
/// the smaller token.
std::int32_t draw_token(std::span<const float> logits, float temperature, std::int64_t top_k, float uniform);

}  // namespace mxtape
