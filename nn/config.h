#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"

namespace mxtape {

enum class RopeScaling : std::uint8_t { none, linear, llama3 };

/// Rotary positions: pair i of a head of D channels turns by w_i = theta^(-2 i / D) for each token. Su et al.
/// 2021, arXiv:2104.09864. Scaling stretches a model that was trained on shorter texts: `linear` divides all
/// w by `factor` (Chen et al. 2023, arXiv:2306.15595); `llama3` divides those that turn less than `low` times
/// within `original` tokens, keeps those that turn more than `high` times, and goes from one to the other in
/// between.
struct RopeConfig {
  float theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1, low = 1, high = 4;
  std::int64_t original = 0;
  bool operator==(const RopeConfig&) const = default;
};

/// w [D / 2], in the f32 steps of transformers: long contexts would differ else.
std::vector<float> rope_frequencies(const RopeConfig&, std::int64_t D);

struct RopeAngles {
  std::vector<float> cos, sin;  ///< [positions, D / 2]
};
/// Of positions first, first + 1 ...: the f32 product of position and w, its cosine and sine correctly
/// rounded.
RopeAngles rope_angles(const std::vector<float>& frequencies, std::int64_t first, std::int64_t positions);

RotaryTables make_rotary_tables(Backend&, const RopeConfig&, std::int64_t D, std::int64_t positions);

enum class NormKind : std::uint8_t { layer, rms };
enum class Positions : std::uint8_t { learned, rope };
enum class MlpKind : std::uint8_t { gelu, swiglu };

/// What a model is. Kinds of models (nn/model.h) read of it what they have.
struct ModelConfig {
  std::string kind = "gpt2";
  std::int64_t vocabulary = 0;  ///< 0: taken from the data
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;    ///< channels C
  std::int64_t context = 64;   ///< longest sequence T
  std::int64_t mlp_width = 0;  ///< hidden channels of the MLP; 0: see hidden()
  bool bias = true;            ///< in linear layers and layer norms
  bool tied_head = true;       ///< the head's weight is the token embedding
  Gelu gelu = Gelu::tanh;
  float dropout = 0;            ///< after embedding, attention and MLP
  float attention_dropout = 0;  ///< of attention's probabilities
  float norm_eps = 1e-5f;
  float init_deviation = 0.02f;
  NormKind norm = NormKind::layer;
  Positions positions = Positions::learned;
  MlpKind mlp = MlpKind::gelu;
  std::int64_t kv_heads = 0;    ///< heads of keys and values G, divides heads; 0: as many
  std::int64_t head_width = 0;  ///< channels of a head D; 0: width / heads
  RopeConfig rope{};
  bool qk_norm = false;   ///< an RMS norm of each query and key before it is turned (Qwen3)
  bool qkv_bias = false;  ///< biases of attn.qkv, whatever `bias` says (Qwen2)
  bool operator==(const ModelConfig&) const = default;

  /// 4 C by default; of SwiGLU's three matrices 8/3 C, up to a multiple of 64.
  std::int64_t hidden() const {
    if (mlp_width) return mlp_width;
    return mlp == MlpKind::gelu ? 4 * width : (8 * width + 191) / 192 * 64;
  }
  std::int64_t key_heads() const { return kv_heads ? kv_heads : heads; }                  ///< G
  std::int64_t head_channels() const { return head_width ? head_width : width / heads; }  ///< D
  std::int64_t qkv_width() const { return (heads + 2 * key_heads()) * head_channels(); }
};

/// The roundings of every layer that multiplies matrices, by layer name. Made by recipes/, handed to the
/// model; nothing is looked up while training.
struct PrecisionPlan {
  std::map<std::string, LinearQuant> linear;        ///< "blocks.0.attn.qkv", "...attn.out", "...mlp.up" or
                                                    ///< "...mlp.gate_up", "...mlp.down", "head"
  std::map<std::string, AttentionQuant> attention;  ///< "blocks.0.attn"
  /// Of parameters that enter no GEMM: a norm's gain ("blocks.0.norm1", "blocks.0.attn.q_norm", "norm"), the
  /// token table ("embedding"). f32 where there is no entry.
  std::map<std::string, Quantizer> parameters;
  std::map<std::string, Quantizer> sums;  ///< of a layer's matrices: a strand's gradient, before it is added
  DType activations = DType::f32;         ///< what passes between layers: f32 or bf16
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
