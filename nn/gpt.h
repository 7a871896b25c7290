#pragma once
#include <memory>
#include <vector>

#include "nn/config.h"

namespace mxtape {

/// token + position embedding -> blocks of (norm, attention, add, norm, MLP, add) -> norm -> head.
/// Radford et al. 2019; residual projections start with deviation init / sqrt(2 layers).
class Gpt {
 public:
  /// Parameters drawn from `seed` by index: the same on every device.
  Gpt(Backend&, const GptConfig&, const PrecisionPlan&, std::uint64_t seed);
  ~Gpt();
  Gpt(Gpt&&) noexcept;

  /// logits [B, T, V] of tokens i32 [B, T], T <= context.
  Var forward(Tape&, const Tensor& tokens);

  /// Makes all copies of weights that a training step uses and that are not at hand (make_weight_copies()).
  /// True if one was made. `pass` of the step; forward() makes what is missing as well.
  bool make_weight_copies(Backend&, const PassKey& pass);

  /// In the order of computation, tied ones once, names "tokens.weight", "positions.weight",
  /// "blocks.0.norm1.gain", "blocks.0.attn.qkv.weight" ... "norm.gain", "norm.bias".
  std::vector<Parameter*> parameters();
  const GptConfig& config() const;
  /// For a recipe's phases: weight copies go. The plan must name every layer and nothing else.
  void set_precision(const PrecisionPlan&);

 private:
  struct Layers;
  std::unique_ptr<Layers> layers_;
};

}  // namespace mxtape
