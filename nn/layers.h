#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/model.h"

// The layers that models are made of: each owns its parameters, its roundings and its place in the random
// streams.
namespace mxtape {

/// Names of random streams: layer * 64 + site. Layer 0 is the embedding, 1 .. L the blocks, L + 1 the head.
/// Part of every stochastic run's bits: never renumber.
inline constexpr std::uint32_t sites_per_layer = 64;
constexpr std::uint32_t first_id(std::int64_t layer) { return std::uint32_t(layer) * sites_per_layer; }

/// Sites inside a block. Linear layers use four ids, attention up to sixteen.
namespace site {
inline constexpr std::uint32_t qkv = 0;
inline constexpr std::uint32_t attention = 4;
inline constexpr std::uint32_t attention_out = 20;
inline constexpr std::uint32_t attention_dropout = 24;
inline constexpr std::uint32_t mlp_up = 28;
inline constexpr std::uint32_t mlp_down = 32;
inline constexpr std::uint32_t mlp_dropout = 36;
inline constexpr std::uint32_t norm1 = 40, norm2 = 41;
inline constexpr std::uint32_t final_norm = 42;  // of the head's layer
inline constexpr std::uint32_t q_norm = 43, k_norm = 44;
inline constexpr std::uint32_t embedding_table = 4;  // of the embedding's
}  // namespace site

/// Makes parameters. Draws are numbered by parameter and element, so a parameter's start does not depend on
/// the others, on threads or on the device.
struct Initialiser {
  Backend& backend;
  std::uint64_t seed;

  /// Every element N(0, deviation^2). Tensors of rank 2 and more are subject to weight decay, as in GPT-2's
  /// and nanoGPT's training.
  Parameter normal(std::string name, Shape, float deviation, std::uint32_t tensor_id) const;
  Parameter constant(std::string name, Shape, float value) const;
};

/// y [..., N] = x [..., K] W^T + b; W [N, K], six operand slots.
class Linear {
 public:
  /// Uses tensor ids tensor_id to tensor_id + 3. W starts as N(0, deviation^2), b as 0.
  Linear(const Initialiser&, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
         float deviation, std::uint32_t tensor_id);

  Var operator()(Tape&, Var x);
  LinearWeight weight() { return {name_, weight_, quant_, tensor_id_}; }
  void collect(std::vector<Parameter*>&);
  const std::string& name() const { return name_; }
  void set_precision(const LinearQuant&);

 private:
  std::string name_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  LinearQuant quant_;
  std::uint32_t tensor_id_;
};

/// Layer norm or RMS norm over the last axis; gain starts as 1, bias as 0. An RMS norm has no bias.
class Norm {
 public:
  /// `tensor_id` names the gain in random draws of its rounding.
  Norm(const Initialiser&, const std::string& name, std::int64_t width, NormKind, bool bias, float eps,
       std::uint32_t tensor_id);

  Var operator()(Tape&, const Var& x);
  /// Its gain, for an op that norms.
  ParameterUse gain(Tape&);
  void collect(std::vector<Parameter*>&);
  const std::string& name() const { return name_; }
  void set_precision(const Quantizer& gain) { rounding_.quantizer = gain; }

 private:
  std::string name_;
  NormKind kind_;
  Parameter gain_;
  std::optional<Parameter> bias_;
  float eps_;
  ParameterQuant rounding_;
};

/// x [B, T, C] = tokens.weight[token] + positions.weight[t], if positions are learned; then dropout.
class Embedding {
 public:
  /// Uses tensor ids 0 to 2.
  Embedding(const Initialiser&, const ModelConfig&);

  /// A `first_position` that is not 0 is for evaluation.
  Var operator()(Tape&, const Tensor& tokens, DType, std::int64_t first_position = 0);
  void collect(std::vector<Parameter*>&);
  /// [V, C], for a head that is tied to it.
  Parameter& table() { return table_; }
  void set_precision(const Quantizer& table) { rounding_.quantizer = table; }

 private:
  Parameter table_;
  std::optional<Parameter> positions_;
  float dropout_;
  ParameterQuant rounding_{.tensor_id = site::embedding_table};
};

/// y = W_o attention(W_qkv x): all heads' queries, keys and values come from one GEMM. Vaswani et al. 2017,
/// arXiv:1706.03762, section 3.2, with a causal mask; dropout on its probabilities and on y. Queries and keys
/// may be normed and turned before (ops::rotary).
class CausalSelfAttention {
 public:
  /// `first_id` is that of the block; the tables outlive it.
  CausalSelfAttention(const Initialiser&, const std::string& name, const ModelConfig&, const RotaryTables&,
                      std::uint32_t first_id);

  /// With a cache, x [B, T, C] follows the tokens in it.
  Var operator()(Tape&, Var x, KeyValueCache* cache = nullptr);
  void collect(std::vector<Parameter*>&);
  void collect(std::vector<Linear*>&);
  void collect(std::vector<Norm*>&);
  const std::string& name() const { return name_; }
  void set_precision(const AttentionQuant& quant) { quant_ = quant; }

 private:
  std::string name_;
  std::int64_t heads_, kv_heads_;
  float dropout_, attention_dropout_, eps_;
  std::uint32_t first_id_;
  const RotaryTables& tables_;  ///< the model's; empty: positions are learned
  Linear qkv_;
  std::optional<Norm> q_norm_, k_norm_;
  Linear out_;
  AttentionQuant quant_;
};

/// y = W_down gelu(W_up x) or W_down swiglu(W_gate_up x), then dropout.
class Mlp {
 public:
  /// `first_id` is that of the block.
  Mlp(const Initialiser&, const std::string& name, const ModelConfig&, std::uint32_t first_id);

  Var operator()(Tape&, Var x);
  void collect(std::vector<Parameter*>&);
  void collect(std::vector<Linear*>&);

 private:
  std::string name_;
  MlpKind kind_;
  Gelu gelu_;
  float dropout_;
  std::uint32_t first_id_;
  Linear up_, down_;
};

/// x = x + attention(norm1(x)); x = x + mlp(norm2(x)).
struct TransformerBlock {
  TransformerBlock(const Initialiser&, const ModelConfig&, const RotaryTables&, std::int64_t index);

  Var operator()(Tape&, const Var& x, KeyValueCache* cache = nullptr);
  void collect(std::vector<Parameter*>&);
  void collect(std::vector<Norm*>&);

  std::string name;
  Norm norm1;
  CausalSelfAttention attention;
  Norm norm2;
  Mlp mlp;
};

}  // namespace mxtape
