#pragma once
#include <cstdint>

#include "autograd/source.h"
#include "autograd/tape.h"

namespace mxtape {

enum class Gelu : std::uint8_t;  // kernels/calls_rows.h
struct AttentionShape;           // kernels/attention/attention.h
struct AttentionQuant;

/// Roundings of the six GEMM operands of a linear layer, blocks along the axis that the GEMM sums over, from
/// the high-precision tensor unless a source below says otherwise; and the rotation of each GEMM's operands.
///   fprop  Y[M, N]  = X W^T    sums over K (in-features)
///   dgrad  dX[M, K] = dY W     sums over N (out-features)
///   wgrad  dW[N, K] = dY^T X   sums over M (rows)
struct LinearQuant {
  Quantizer fprop_x, fprop_w;
  Quantizer dgrad_dy, dgrad_w;
  Quantizer wgrad_dy, wgrad_x;
  Rotation fprop_rotation, dgrad_rotation, wgrad_rotation;
  OperandSource dgrad_source{}, wgrad_source{};  ///< of w in dgrad, of x in wgrad
  StraightThrough x_ste{}, w_ste{};              ///< of fprop's operands
  Quantizer out{};                               ///< of y, blocks along N; backward takes it for the identity
  bool operator==(const LinearQuant&) const = default;
};

/// Rounding of a gain or an embedding's table, along its last axis, in each pass; backward takes it for the
/// identity. `tensor_id` names it in random draws, which change with each optimizer step.
struct ParameterQuant {
  Quantizer quantizer{};
  std::uint32_t tensor_id = 0;
};

/// A parameter and what an op reads of it: its value, or that rounded.
struct ParameterUse {
  Parameter* parameter = nullptr;
  Tensor value{};
};

/// cos and sin [positions, D / 2] of the angles that ops::rotary() turns by; nn/config.h makes them.
struct RotaryTables {
  Tensor cos{}, sin{};
};

/// Dimension letters: B batch, T time, C channels, H heads, G key heads, D head width, F hidden width, V
/// vocabulary; GEMM M, N, K; rows = all axes but the last. Activations are f32 or bf16; an op's result has
/// its input's type. Every op throws Error(internal) with both shapes if they do not fit. Every op's backward
/// treats rounding as the identity (straight-through estimator), unless a StraightThrough says otherwise.
namespace ops {

/// y [rows, N] = Q(x) [rows, K] Q(w)^T + bias; w [N, K], bias [N] or null. `tensor_id` names x, w, dy and y
/// in random draws (four ids from it on): x and dy draw anew each pass, w each optimizer step. SignsPer says
/// when a rotation's signs are drawn. Saves the wgrad copy of x, not x: 2 bytes a number for MX formats, 1.1
/// as integer codes, about half or less where the tape packs it; nothing if backward recomputes x. A
/// StraightThrough of x that is not the identity saves x too.
Var linear(Tape&, Var x, Parameter& w, Parameter* bias, const LinearQuant&, std::uint32_t tensor_id);

/// y = Q(x), times its multiplier, in x's type; x seen as [rows, C], blocks along `axis`. Saves x unless
/// `ste` is the identity. `tensor_id` names x in random draws, anew each pass.
Var quantize(Tape&, const Var& x, const Quantizer&, Axis axis, const StraightThrough& ste,
             std::uint32_t tensor_id);

/// y [B, T, C] = table[tokens] + positions[0..T); table [V, C]; positions [>= T, C] or null; tokens i32 [B,
/// T]. `dtype` f32 or bf16 is y's, and with it that of everything computed from y.
Var embedding(Tape&, const Tensor& tokens, Parameter& table, Parameter* positions, DType dtype = DType::f32,
              const ParameterQuant& of_table = {});

/// y = gain * (x - mean) / sqrt(var + eps) + bias per row; gain [C], bias [C] or null; var divides by C.
/// Saves x and 8 bytes a row. Ba, Kiros & Hinton 2016, arXiv:1607.06450, eq. 3-4.
Var layer_norm(Tape&, const Var& x, Parameter& gain, Parameter* bias, float eps = 1e-5f,
               const ParameterQuant& of_gain = {});

/// y = gain * x / sqrt(mean of x^2 + eps) per row; gain [C]. Saves x and 4 bytes a row. Zhang & Sennrich
/// 2019, arXiv:1910.07467, eq. 4, with eps under the root as in Llama.
Var rms_norm(Tape&, const Var& x, Parameter& gain, float eps = 1e-5f, const ParameterQuant& of_gain = {});

/// y = x Phi(x), erf form, or its tanh approximation as in GPT-2. Saves x. Hendrycks & Gimpel,
/// arXiv:1606.08415, section 2.
Var gelu(Tape&, const Var& x, Gelu form);

/// y [..., F] = silu(a) b of x [..., 2 F] = [a | b], silu(a) = a / (1 + e^-a). Saves x. Shazeer 2020,
/// arXiv:2002.05202, eq. 6.
Var swiglu(Tape&, const Var& x);

/// y: the pairs (i, i + D / 2) of each query and key in qkv [B, T, (H + 2 G) D] turned by the angles of
/// positions first_position ..; values as they are. With gains [D] (both or none) each query and key is
/// RMS-normed before. Saves nothing, or qkv and 4 bytes a head; a qkv that nobody else holds becomes y. Su et
/// al. 2021, arXiv:2104.09864, eq. 34, in halves.
Var rotary(Tape&, Var qkv, std::int64_t heads, std::int64_t kv_heads, const RotaryTables&,
           const ParameterUse& q_gain = {}, const ParameterUse& k_gain = {}, float eps = 1e-5f,
           std::int64_t first_position = 0);

/// o [B, T, H D] = dropout(softmax(Q K^T / sqrt(D) + mask)) V, the dropout in training only. Self-attention:
/// qkv [B, T, (H + 2 G) D]. Cross-attention, if shape.own_keys: qkv is the queries [B, T, H D], and `kv` [B,
/// shape.room, 2 G D] keys and values of another tensor; gradients want room = keys. lengths [B], i32, from 1
/// to shape.keys: how many keys of each sequence are seen, all if empty. `tensor_id` names the operands in
/// random draws (14 ids from it on), anew each pass. Saves its inputs, in bf16 if the tape packs and backward
/// rounds them so, o and the row sums. Vaswani et al. 2017, arXiv:1706.03762, eq. 1.
Var attention(Tape&, const Var& qkv, const AttentionShape&, const AttentionQuant&, std::uint32_t tensor_id,
              const Var& kv = {}, const Tensor& lengths = {});

/// y = a + b, same shape. Saves nothing; a b that nobody else holds becomes y.
Var add(Tape&, const Var& a, Var b);

/// In training y = x / (1 - p) with probability 1 - p, else 0, by element index; x itself in evaluation or
/// for p = 0. Saves nothing: backward draws the same numbers again. An x that nobody else holds becomes y.
Var dropout(Tape&, Var x, float p, std::uint32_t tensor_id);

/// Mean of -log softmax(logits)[target] [nats] over rows; logits [rows, V], targets i32 [rows]. The gradient
/// replaces the logits in training. `scale` multiplies the gradient only (1 / micro-batches). `losses`
/// [rows], if wanted, gets each row's. Backward wants the result to be the loss itself, or a term of the sum
/// that is. Target ranges are checked where tokens enter (data/), not here.
Var cross_entropy(Tape&, const Var& logits, const Tensor& targets, float scale = 1, Tensor* losses = nullptr);

}  // namespace ops
}  // namespace mxtape
