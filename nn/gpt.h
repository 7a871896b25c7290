#pragma once
#include <memory>

#include "nn/model.h"

namespace mxtape {

/// token + position embedding -> blocks of (norm, attention, add, norm, MLP, add) -> norm -> head.
/// Radford et al. 2019; residual projections start with deviation init / sqrt(2 layers).
class Gpt final : public Model {
 public:
  Gpt(Backend&, const ModelConfig&, const PrecisionPlan&, std::uint64_t seed);
  ~Gpt() override;

  const ModelConfig& config() const override;
  Var forward(Tape&, const Tensor& tokens) override;
  Var extend(Tape&, const Tensor& tokens, KeyValueCache&) override;
  std::string no_cache() const override;
  std::vector<LinearWeight> linear_weights() override;
  /// Names "tokens.weight", "positions.weight", "blocks.0.norm1.gain", "blocks.0.attn.qkv.weight" ...
  /// "norm.gain", "norm.bias".
  std::vector<Parameter*> parameters() override;
  void set_precision(const PrecisionPlan&) override;
  void place_constants(Backend&) override;

 private:
  struct Layers;
  std::unique_ptr<Layers> layers_;
};

extern const ModelKind gpt2_kind;

}  // namespace mxtape
