#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "recipes/recipe.h"

namespace mxtape {

/// What a model from elsewhere computes, as its config.json says it, and what a recipe's [model] says.
/// Letters: C width, H heads, G kv_heads, D head_width, F mlp_width, V vocabulary, L layers.
struct ModelFacts {
  std::string architecture = "gpt2";  ///< a row of architectures(): gpt2 llama mistral qwen2 qwen3
  std::int64_t vocabulary = 0, layers = 0, heads = 0, kv_heads = 0, width = 0, head_width = 0, mlp_width = 0;
  std::int64_t positions = 0;  ///< the longest text that it was made for
  bool tied = true;
  bool bias = true;       ///< in all linear layers (and in layer norms)
  bool qkv_bias = false;  ///< of q, k and v alone
  bool qk_norm = false;
  Gelu gelu = Gelu::tanh;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1, rope_low = 1, rope_high = 4;
  std::int64_t rope_original = 0;
  std::optional<std::int64_t> bos{}, pad{};
  std::vector<std::int64_t> eos{};

  bool is_llama_style() const { return architecture != "gpt2"; }
  std::int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_width; }
  bool operator==(const ModelFacts&) const = default;
};

/// The recipe's [model] that computes the same, with `context` tokens. Throws Error(data) with `where` in
/// front for a value that its key does not accept.
ModelConfig model_config_of(const ModelFacts&, std::int64_t context, const std::string& where);
/// What a recipe's [model] computes. The architecture is the one that export writes it as. Throws
/// Error(usage) for a mixture that no class of transformers computes, with the keys that do not fit.
ModelFacts facts_of(const ModelConfig&);

}  // namespace mxtape
