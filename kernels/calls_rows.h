#pragma once
#include "kernels/attention/attention.h"
#include "kernels/weight_average_call.h"

namespace mxtape {

enum class Gelu : std::uint8_t { tanh, erf };

/// What AdamW keeps from step to step (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
struct AdamWStep {
  float beta1, beta2, eps, weight_decay;
};

/// What is asked of a device besides GEMMs and roundings (kernels/calls.h): a value each for norms,
/// attention, losses and the update. Letters and roles are those of kernels/calls.h.
namespace call {

/// y = a + b; y may be a or b.
struct Add {
  static constexpr std::string_view name = "add";
  Tensor y, a, b;
  static void each(auto& c, const auto& f) {
    f(result, "y", c.y), f(activation, "a", c.a), f(activation, "b", c.b);
  }
};

struct Gelu {
  static constexpr std::string_view name = "gelu";
  Tensor y, x;
  mxtape::Gelu form;
  static void each(auto& c, const auto& f) { f(result, "y", c.y), f(activation, "x", c.x); }
};

/// dx may be dy.
struct GeluBackward {
  static constexpr std::string_view name = "gelu_backward";
  Tensor dx, dy, x;
  mxtape::Gelu form;
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(activation, "dy", c.dy), f(activation, "x", c.x);
  }
};

/// y [rows, F] = a b / (1 + e^-a) of x [rows, 2 F] = [a | b].
struct Swiglu {
  static constexpr std::string_view name = "swiglu";
  Tensor y, x;
  static void each(auto& c, const auto& f) { f(result, "y", c.y), f(activation, "x", c.x); }
};

/// dx may be x.
struct SwigluBackward {
  static constexpr std::string_view name = "swiglu_backward";
  Tensor dx, dy, x;
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(activation, "dy", c.dy), f(activation, "x", c.x);
  }
};

/// x [B, T, (H + 2 G) D] has H heads of queries, G of keys, G of values. In y the pair (i, i + D / 2) of each
/// query and key is turned by the angle i of position first_position + t: cos, sin [positions, D / 2]. With
/// gains [D] the head is normalised before as by Norm without mean; rstd [B, T, H + G] is an output. y may be
/// x.
struct Rotary {
  static constexpr std::string_view name = "rotary";
  Tensor y, x, cos, sin;
  std::int64_t heads, kv_heads, first_position = 0;
  Tensor rstd{}, q_gain{}, k_gain{};
  float eps = 1e-5f;
  static void each(auto& c, const auto& f) {
    f(output, "rstd", c.rstd), f(result, "y", c.y), f(activation, "x", c.x), f(input, "cos", c.cos);
    f(input, "sin", c.sin), f(input, "q's gain", c.q_gain), f(input, "k's gain", c.k_gain);
  }
};

/// dx may be dy. x, rstd, the gains and their gradients [D], summed over rows and heads, as they were given.
struct RotaryBackward {
  static constexpr std::string_view name = "rotary_backward";
  Tensor dx, dy, cos, sin;
  std::int64_t heads, kv_heads, first_position = 0;
  Tensor dq_gain{}, dk_gain{}, x{}, rstd{}, q_gain{}, k_gain{};
  Write write = Write::overwrite;  ///< the gains'
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(sum, "q's dgain", c.dq_gain), f(sum, "k's dgain", c.dk_gain);
    f(activation, "dy", c.dy), f(activation, "x", c.x), f(input, "cos", c.cos), f(input, "sin", c.sin);
    f(input, "rstd", c.rstd), f(input, "q's gain", c.q_gain), f(input, "k's gain", c.k_gain);
  }
};

/// y[i] = x[i] / (1 - p) where uniform(i) >= p, else 0; y may be x. Backward is the same call on dy with the
/// same key.
struct Dropout {
  static constexpr std::string_view name = "dropout";
  Tensor y, x;
  float p;
  DrawKey key;
  static void each(auto& c, const auto& f) { f(result, "y", c.y), f(activation, "x", c.x); }
};

/// y = gain * (x - mean) * rstd + bias per row of x [rows, C]. mean, rstd [rows] are outputs. Without mean an
/// RMSNorm, which has no bias either: y = gain * x * rstd, rstd = 1 / sqrt(<x^2> + eps).
struct Norm {
  static constexpr std::string_view name = "norm";
  Tensor y, mean, rstd, x, gain;
  Tensor bias{};
  float eps = 1e-5f;
  static void each(auto& c, const auto& f) {
    f(output, "mean", c.mean), f(output, "rstd", c.rstd), f(result, "y", c.y);
    f(activation, "x", c.x), f(input, "gain", c.gain), f(input, "bias", c.bias);
  }
};

/// dgain, dbias [C] are summed over rows; dx may be dy. `others`, if given, is what x gets from its other
/// uses, and dx their sum, rounded once; it may be dx.
struct NormBackward {
  static constexpr std::string_view name = "norm_backward";
  Tensor dx, dgain;
  Tensor dbias{};
  Tensor dy, x, mean, rstd, gain;
  Write write = Write::overwrite;  ///< dgain's and dbias's
  Tensor others{};
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(sum, "dgain", c.dgain), f(sum, "dbias", c.dbias);
    f(activation, "dy", c.dy), f(activation, "x", c.x), f(input, "mean", c.mean);
    f(input, "rstd", c.rstd), f(input, "gain", c.gain), f(activation, "others", c.others);
  }
};
/// For devices.
inline void check_norm(const Tensor& mean, const Tensor& bias) {
  require(mean || !bias, "norm: a bias without a mean; an RMSNorm has none");
}

/// losses[r] = -log softmax(logits[r])[targets[r]]; loss[1] = their mean. dlogits (empty: not wanted; may be
/// logits) is the mean's gradient times `scale`; NaN where a loss is not finite. targets i32 [rows].
struct CrossEntropy {
  static constexpr std::string_view name = "cross_entropy";
  Tensor loss, losses, dlogits, logits, targets;
  float scale = 1;
  static void each(auto& c, const auto& f) {
    f(output, "losses", c.losses), f(output, "loss", c.loss);
    f(result, "dlogits", c.dlogits), f(activation, "logits", c.logits);
    f(index, "targets", c.targets);
  }
};

/// y[r] = table[tokens[r]] + positions[r % T]; positions [>= T, C] may be empty. tokens i32 [B, T].
struct Embedding {
  static constexpr std::string_view name = "embedding";
  Tensor y, table, positions, tokens;
  static void each(auto& c, const auto& f) {
    f(result, "y", c.y), f(input, "table", c.table);
    f(input, "positions", c.positions), f(index, "tokens", c.tokens);
  }
};

/// dtable [V, C], dpositions (may be empty); the order of additions is the order of the rows.
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding_backward";
  Tensor dtable, dpositions, dy, tokens;
  Write table = Write::overwrite, positions = Write::overwrite;
  static void each(auto& c, const auto& f) {
    f(sum, "dtable", c.dtable), f(sum, "dpositions", c.dpositions);
    f(activation, "dy", c.dy), f(index, "tokens", c.tokens);
  }
};

/// o [B, T, H D] = dropout(softmax(Q K^T / sqrt(D), masked)) V per head (unquantized P and dS of bf16
/// activations may be rounded to bf16); lse [B, H, T] = log of the row sums, for backward. Of sequence b the
/// first lengths[b] keys are seen (i32 [B]; below 1 is taken for 1). Each operand has its own stream: tensor
/// ids draws.tensor_id + its place in AttentionQuant, elements numbered as attention_draws() says;
/// draws.first_element counts rows of qkv (tokens), not elements. Where a device narrows(), qkv and kv may be
/// bf16 beside an f32 o.
struct Attention {
  static constexpr std::string_view name = "attention";
  Tensor o, lse, qkv;  ///< q alone, if the shape has own_keys
  AttentionShape shape;
  AttentionQuant quant;
  DrawKey draws{};
  Tensor kv{}, lengths{};
  static void each(auto& c, const auto& f) {
    f(output, "lse", c.lse), f(result, "o", c.o), f(operand, "qkv", c.qkv);
    f(operand, "kv", c.kv), f(index, "lengths", c.lengths);
  }
};

/// Rows of keys that no query sees get 0; those of dkv behind the shape's `keys` may hold anything.
struct AttentionBackward {
  static constexpr std::string_view name = "attention_backward";
  Tensor dqkv, d_o, qkv, o, lse;
  AttentionShape shape;
  AttentionQuant quant;
  DrawKey draws{};
  Tensor dkv{}, kv{}, lengths{};
  static void each(auto& c, const auto& f) {
    f(result, "dqkv", c.dqkv), f(result, "dkv", c.dkv), f(activation, "d_o", c.d_o);
    f(operand, "qkv", c.qkv), f(operand, "kv", c.kv), f(index, "lengths", c.lengths);
    f(activation, "o", c.o), f(input, "lse", c.lse);
  }
};

/// sums[i] = sum of the squares of x[i unit .. (i + 1) unit), in an order that the range's length decides.
/// sums f64 [ceil(count / unit)].
struct Squares {
  static constexpr std::string_view name = "squares";
  Tensor sums, x;
  std::int64_t unit;
  static void each(auto& c, const auto& f) { f(wide, "sums", c.sums), f(input, "x", c.x); }
};

/// norm[1] = sqrt of the sum of squares over all tensors, in a fixed order; factor[1] = min(1, max_norm /
/// norm), 1 if max_norm is 0; NaN, with or without a limit, if the norm is not finite. `squares`, f64, given
/// instead of gradients: these are added, in an order that their number decides.
struct ClipFactor {
  static constexpr std::string_view name = "clip_factor";
  Tensor norm, factor;
  std::span<const Tensor> gradients;
  float max_norm;
  Tensor squares{};
  static void each(auto& c, const auto& f) {
    f(output, "norm", c.norm), f(output, "factor", c.factor), f(wide, "squares", c.squares);
    for (const Tensor& gradient : c.gradients) f(input, "gradient", gradient);
  }
};

/// m, v and parameter in place, from gradient * factor[1]; they stay as they are if the factor is NaN. rates
/// [3]: learning rate, 1 - beta1^t, 1 - beta2^t. And Quantize{copies, parameter} of the new parameter, which
/// a device may do in the same pass; after a factor of NaN it may leave the copies as they were.
struct AdamW {
  static constexpr std::string_view name = "adamw";
  Tensor parameter, m, v, gradient, factor, rates;
  AdamWStep step;
  std::span<const Rounded> copies{};
  static void each(auto& c, const auto& f) {
    f(state, "parameter", c.parameter), f(state, "m", c.m), f(state, "v", c.v);
    f(input, "gradient", c.gradient), f(input, "factor", c.factor);
    f(input, "rates", c.rates);
    for (const Rounded& r : c.copies) each_part(r, rounded, f);
  }
};

template <class... Calls>
struct List {};
/// A new kernel is one more name here: every device then has to compute it.
using All =
    List<Fill, Copy, Normal, Gemm, Quantize, Recode, QuantizeBackward, Add, Gelu, GeluBackward, Swiglu,
         SwigluBackward, Rotary, RotaryBackward, Dropout, Norm, NormBackward, CrossEntropy, Embedding,
         EmbeddingBackward, Attention, AttentionBackward, Squares, ClipFactor, AdamW, WeightAverage>;

}  // namespace call

/// f(call) of the struct that it is. Throws Error(internal) for one that call::All lacks.
template <class F>
void visit(const F& f, AnyCall any) {
  const bool known = [&]<class... Calls>(call::List<Calls...>) {
    return ((any.as<Calls>() && (f(any.as<Calls>()), true)) || ...);
  }(call::All{});
  require(known, "{}: is not in call::All", any.name());
}

}  // namespace mxtape
