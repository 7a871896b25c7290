#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops.h"

namespace mxtape {

/// What a model is. Kinds of models (nn/model.h) read of it what they have.
struct ModelConfig {
  std::string kind = "gpt2";
  std::int64_t vocabulary = 0;  ///< 0: taken from the data
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;    ///< channels C; a multiple of heads
  std::int64_t context = 64;   ///< longest sequence T
  std::int64_t mlp_width = 0;  ///< hidden channels of the MLP; 0: 4 width
  bool bias = true;            ///< in linear layers and norms
  bool tied_head = true;       ///< the head's weight is the token embedding
  Gelu gelu = Gelu::tanh;
  float dropout = 0;            ///< after embedding, attention and MLP
  float attention_dropout = 0;  ///< of attention's probabilities
  float norm_eps = 1e-5f;
  float init_deviation = 0.02f;
  bool operator==(const ModelConfig&) const = default;

  std::int64_t hidden() const { return mlp_width ? mlp_width : 4 * width; }
};

/// The roundings of every layer that multiplies matrices, by layer name. Made by recipes/, handed to the
/// model; nothing is looked up while training.
struct PrecisionPlan {
  std::map<std::string, LinearQuant>
      linear;  ///< "blocks.0.attn.qkv", "...attn.out", "...mlp.up", "...mlp.down", "head"
  std::map<std::string, AttentionQuant> attention;  ///< "blocks.0.attn"
  /// Of parameters that enter no GEMM: a norm's gain ("blocks.0.norm1", "norm"), the token table
  /// ("embedding"). f32 where there is no entry.
  std::map<std::string, Quantizer> parameters;
  DType activations = DType::f32;  ///< what passes between layers: f32 or bf16
  bool operator==(const PrecisionPlan&) const = default;
};

/// "blocks.3".
std::string block_name(std::int64_t index);

/// Throws Error(usage) naming the recipe key if the extents do not fit (width not a multiple of heads, zero
/// layers ...).
void validate(const ModelConfig&);
/// Standard deviation at the start of the projections back into the residual stream, attn.out and mlp.down:
/// init_deviation / sqrt(2 layers), so that the stream's variance does not grow with depth (Radford et al.
/// 2019, section 2.3).
float residual_deviation(const ModelConfig&);

}  // namespace mxtape
