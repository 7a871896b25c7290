#pragma once
#include <span>
#include <string_view>
#include <variant>

#include "formats/straight_through/straight_through.h"
#include "kernels/attention/attention.h"
#include "kernels/rounded.h"

namespace mxtape {

enum class Gelu : std::uint8_t { tanh, erf };

/// What AdamW keeps from step to step (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
struct AdamWStep {
  float beta1, beta2, eps, weight_decay;
};

/// What a call does with one of its tensors, and so what the tensor may hold.
enum class Role : std::uint8_t {
  activation,  ///< read: f32 or bf16, as all activations of the call
  result,      ///< an activation that is written, rounded to nearest even when it is bf16
  input,       ///< read: f32
  output,      ///< written: f32
  sum,         ///< written or added to: f32
  state,       ///< read and written: f32
  operand,     ///< read: f32, bf16 or u8 (codes), each for itself
  rounded,     ///< written: f32, bf16 or u8 (codes), each for itself
  index,       ///< read: i32
  found,       ///< written: i32
  wide,        ///< read or written: f64
  any          ///< read or written: any type
};
constexpr bool is_activation(Role role) { return role == Role::activation || role == Role::result; }

/// What is asked of a device: one struct for each kernel, a call is a value of it. Letters: B batch, T time,
/// C channels, H heads, D head width, V vocabulary; GEMM M, N, K; rows = all axes but the last. Activations
/// and their gradients are f32 or bf16, all those of a call the same; they are read as f32. Everything else
/// is f32: parameters, their gradients and moments, biases, statistics, losses. Outputs are written, not
/// added to, unless a field says Write::accumulate. A tensor that is marked {} may be left out.
///
/// each(call, f) gives f the role, name and tensor of every field, what is written in the order of the
/// computation.
namespace call {
using enum Role;

/// Gives f each part of a rounded matrix, under this role.
inline void each_part(auto& r, Role role, const auto& f) {
  f(role, "values", r.elements), f(role, "scales", r.scales), f(role, "offsets", r.offsets);
  f(role == rounded ? output : input, "multiplier", r.multiplier);
}

/// y = value.
struct Fill {
  static constexpr std::string_view name = "fill";
  Tensor y;
  float value;
  static void each(auto& c, const auto& f) { f(any, "y", c.y); }
};

/// y = x, f32 and bf16 converted to each other if the types differ.
struct Copy {
  static constexpr std::string_view name = "copy";
  Tensor y, x;
  static void each(auto& c, const auto& f) { f(any, "y", c.y), f(any, "x", c.x); }
};

/// y = a standard normal draw of `key` by index, times `deviation`: initialisation.
struct Normal {
  static constexpr std::string_view name = "normal";
  Tensor y;
  float deviation;
  DrawKey key;
  static void each(auto& c, const auto& f) { f(output, "y", c.y); }
};

/// c[M, N] (+)= sum over k of a(m, k) b(n, k), times both multipliers, in f32 sums; plus `bias` [N] in every
/// row. k is each operand's own axis: `row`, it is stored as [M, K] or [N, K]; `column`, as [K, M] or [K, N].
/// So nothing is transposed by hand, and an operand whose blocks do not run along the sum is refused. If c is
/// bf16, `bias` is rounded to bf16 first, as GEMM libraries take it, and nothing can be added to. Two bf16
/// operands multiply exactly; a bf16 operand that meets an f32 one is widened; codes meet codes. The order of
/// additions depends on the shape only.
struct Gemm {
  static constexpr std::string_view name = "gemm";
  Tensor c;
  Rounded a, b;
  Tensor bias{};
  Write write = Write::overwrite;
  static void each(auto& c, const auto& f) {
    f(result, "c", c.c), each_part(c.a, operand, f), each_part(c.b, operand, f), f(input, "bias", c.bias);
  }
};

/// Rounds x [rows, C] once or twice in one read, each as its Quantization and layout say, both with the same
/// draws; and, if asked, adds up x's columns: column_sums [C]. Nothing waits here for an error of the data:
/// first_uncoded, if given, becomes the index of the first element of which a NaN is lost in a stored result
/// (a plain cast to a format without NaN; a block that is not finite below a scale without NaN), at most
/// 2^31 - 1, or -1. Whoever keeps the bytes must look.
struct Quantize {
  static constexpr std::string_view name = "quantize";
  std::span<const Rounded> to;
  Tensor x;
  Tensor column_sums{};
  Write sums = Write::overwrite;
  Tensor first_uncoded{};
  static void each(auto& c, const auto& f) {
    for (const Rounded& r : c.to) each_part(r, rounded, f);
    f(sum, "column sums", c.column_sums), f(found, "first_uncoded", c.first_uncoded);
    f(activation, "x", c.x);
  }
};

/// The same numbers in another layout or type: stored -> values or codes, codes -> values, values -> f32 or
/// bf16; values or codes <-> their narrow layout. A `to` without multiplier gets them multiplied by it.
struct Recode {
  static constexpr std::string_view name = "recode";
  Rounded to, from;
  static void each(auto& c, const auto& f) { each_part(c.to, rounded, f), each_part(c.from, operand, f); }
};

/// dx = R^T (f' * R dy): the gradient of x below Quantize. R is by's rotation, f' the straight-through
/// derivative at R x. `rotated`: dy is R dy already, as a GEMM with what was rounded gives it. The identity
/// needs no x. dx may be dy.
struct QuantizeBackward {
  static constexpr std::string_view name = "quantize_backward";
  Tensor dx{}, dy{}, x{};
  Quantization by;
  StraightThrough ste{};
  bool rotated = false;
  bool is_identity() const { return !rotated && ste.kind == SteKind::identity; }
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(activation, "dy", c.dy), f(activation, "x", c.x);
  }
};

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

/// Over the last axis; y may be x.
struct Softmax {
  static constexpr std::string_view name = "softmax";
  Tensor y, x;
  static void each(auto& c, const auto& f) { f(result, "y", c.y), f(activation, "x", c.x); }
};

/// dx may be dy.
struct SoftmaxBackward {
  static constexpr std::string_view name = "softmax_backward";
  Tensor dx, dy, y;
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(activation, "dy", c.dy), f(activation, "y", c.y);
  }
};

/// losses[r] = -log softmax(logits[r])[targets[r]]; loss[1] = their mean. dlogits (empty: not wanted; may be
/// logits) is the mean's gradient times `scale`. targets i32 [rows].
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
/// draws.first_element counts rows of qkv (tokens), not elements.
struct Attention {
  static constexpr std::string_view name = "attention";
  Tensor o, lse, qkv;  ///< q alone, if the shape has own_keys
  AttentionShape shape;
  AttentionQuant quant;
  DrawKey draws{};
  Tensor kv{}, lengths{};
  static void each(auto& c, const auto& f) {
    f(output, "lse", c.lse), f(result, "o", c.o), f(activation, "qkv", c.qkv);
    f(activation, "kv", c.kv), f(index, "lengths", c.lengths);
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
    f(activation, "qkv", c.qkv), f(activation, "kv", c.kv), f(index, "lengths", c.lengths);
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

}  // namespace call

/// A call of any kernel. A new kernel is one more name here: every device then has to compute it.
using AnyCall =
    std::variant<const call::Fill*, const call::Copy*, const call::Normal*, const call::Gemm*,
                 const call::Quantize*, const call::Recode*, const call::QuantizeBackward*, const call::Add*,
                 const call::Gelu*, const call::GeluBackward*, const call::Swiglu*,
                 const call::SwigluBackward*, const call::Rotary*, const call::RotaryBackward*,
                 const call::Dropout*, const call::Norm*, const call::NormBackward*, const call::Softmax*,
                 const call::SoftmaxBackward*, const call::CrossEntropy*, const call::Embedding*,
                 const call::EmbeddingBackward*, const call::Attention*, const call::AttentionBackward*,
                 const call::Squares*, const call::ClipFactor*, const call::AdamW*>;

/// Throws Error(internal) if a tensor of the call has a type that its role does not allow.
void check_types(AnyCall);

}  // namespace mxtape
