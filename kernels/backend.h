#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "formats/quantize.h"
#include "formats/rotation.h"

namespace mxtape {

enum class Trans : bool { no, yes };
enum class Write : bool { overwrite, accumulate };
enum class Gelu : std::uint8_t { tanh, erf };

/// One side of a GEMM: f32 or bf16 values, and the number [1] that the product is multiplied by, if any.
struct Operand {
  Tensor values;
  Trans trans = Trans::no;
  Tensor multiplier{};
};

/// One quantized copy of a tensor. `values` has x's shape and q.operand_dtype(); `multiplier` is f32 [1] if
/// q.has_multiplier(), else empty.
struct QuantizedCopy {
  Quantizer quantizer;
  Axis axis = Axis::cols;
  Rotation rotation{};
  DrawKey signs{};  ///< of the rotation
  Tensor values{};
  Tensor multiplier{};
};

/// A matrix as it is stored (formats/mx_tensor.h), on a device. Its parts have the sizes of packed_layout(),
/// and none where there is nothing to hold; codes, scales, offsets and multiplier are all that unpack()
/// needs, wherever they were made.
struct PackedTensor {
  Quantizer quantizer;
  Axis axis = Axis::cols;
  std::int64_t rows = 0, cols = 0;
  Tensor codes{};          ///< u8: as MxTensor's
  Tensor scales{};         ///< u8: as MxTensor's
  Tensor offsets{};        ///< u8: two bytes of FP16 bits per block, low byte first
  Tensor multiplier{};     ///< f32 [1] if quantizer.has_multiplier()
  Tensor first_uncoded{};  ///< i32 [1]: see Backend::pack
};

/// The extents of causal self-attention. qkv is [B, T, 3 H D]: queries, keys, values of all heads side by
/// side.
struct AttentionShape {
  std::int64_t batch, time, heads, width;  // B, T, H, D
};

/// Roundings of attention's operands. Blocks run along the axis that each GEMM sums over: D for q, k, do
/// (dp), v (dp); keys for p, v (pv), ds (dq), k (dq); queries for p, do (dv), ds, q (dk). Each operand of
/// each head is a tensor of its own, [T, D] or [T, T]: blocks start at its first row, a scale of the whole
/// tensor (NVFP4) is one per head, and masked entries of P and dS are zeros of their blocks.
struct AttentionQuant {
  Quantizer qk_q, qk_k;   ///< S = Q K^T / sqrt(D)
  Quantizer pv_p, pv_v;   ///< O = P V, P = softmax(S) normalised
  Quantizer dv_p, dv_do;  ///< dV = P^T dO
  Quantizer dp_do, dp_v;  ///< dP = dO V^T
  Quantizer dq_ds, dq_k;  ///< dQ = dS K
  Quantizer dk_ds, dk_q;  ///< dK = dS^T Q
  bool operator==(const AttentionQuant&) const = default;
};

/// What AdamW keeps from step to step (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
struct AdamWStep {
  float beta1, beta2, eps, weight_decay;
};

/// Everything the framework asks of a device. One instance per device; it owns the device's stream, library
/// handles and scratch memory. Outputs are written, not added to, unless Write::accumulate is passed. Shapes
/// are checked by the callers in autograd/, once for all devices. No method waits for the device except
/// `download` and the queries below it. Letters: B batch, T time, C channels, H heads, D head width, V
/// vocabulary; GEMM M, N, K; rows = all axes but the last.
///
/// Activations and their gradients (x, y, dx, dy, qkv, o, logits ... and c of a GEMM) are f32 or bf16, all
/// those of a call the same; they are read as f32 and rounded to nearest even when stored. Everything else is
/// f32: parameters, their gradients and moments, biases, statistics, losses.
class Backend {
 public:
  virtual ~Backend() = default;
  /// For people: "cpu avx512_bf16, 2 threads".
  virtual std::string description() const = 0;
  /// What the device's libraries chose so far where they had a choice, one line each: for the record of a
  /// run.
  virtual std::vector<std::string> choices() const { return {}; }

  // --- memory
  virtual Tensor empty(Shape, DType = DType::f32) = 0;         ///< uninitialised
  virtual void upload(const Tensor& y, const void* host) = 0;  ///< `host` is read before it returns
  virtual void download(void* host, const Tensor& x) = 0;
  virtual void fill(const Tensor& y, float value) = 0;
  /// y = x, f32 and bf16 converted to each other if the types differ.
  virtual void copy(const Tensor& y, const Tensor& x) = 0;
  /// y = a standard normal draw of `key` by index, times `deviation`: initialisation.
  virtual void normal(const Tensor& y, float deviation, const DrawKey& key) = 0;
  virtual std::int64_t used_bytes() const = 0;
  virtual std::int64_t peak_bytes() const = 0;
  /// Most bytes that tensors can have: the device's memory less what others, and the device's libraries,
  /// hold.
  virtual std::int64_t capacity_bytes() const = 0;
  /// Gives memory kept for reuse back to the system: before something else needs much. The next step pays for
  /// it.
  virtual void trim() {}
  /// Index of the first element that is NaN or infinite, or -1.
  virtual std::int64_t first_nonfinite(const Tensor& x) = 0;

  // --- a step that repeats
  /// The present values of the clocks that draws may follow (DrawKey::clock).
  virtual void set_clocks(std::uint32_t pass, std::uint32_t update) = 0;
  /// Runs `work`, which makes the same calls with the same shapes each time this is called with the same
  /// `name`: a device may plan its memory after the first time, and record the calls and repeat them without
  /// `work` later. So whatever differs from one time to the next is in tensors made before, and in the
  /// clocks; `work` neither uploads nor downloads; and it returns what is to be read afterwards, before the
  /// next call with this name, which may write it to the same storage.
  virtual std::vector<Tensor> repeat(const std::string& name,
                                     const std::function<std::vector<Tensor>()>& work) = 0;
  /// What was planned and recorded under this name goes: its work will not come again, or will differ.
  virtual void forget(const std::string& name) = 0;

  // --- gemm
  /// c[M, N] = op(a)[M, K] op(b)[K, N] * multipliers, in f32 sums; `bias` [N], if given, is added to every
  /// row; if c is bf16, `bias` is rounded to bf16 first, as GEMM libraries take it. Two bf16 operands
  /// multiply exactly; a bf16 operand that meets an f32 one is widened. The order of additions depends on the
  /// shape only.
  virtual void gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias = {},
                    Write = Write::overwrite) = 0;

  // --- quantize
  /// Fills `copies` of x [rows, C] (at most two, one per axis; none if only the sums are wanted) in one read,
  /// the same random draws for both; and, if asked, the sums of x's columns: column_sums [C].
  virtual void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                        const Tensor& column_sums = {}, Write sums = Write::overwrite) = 0;
  /// y = x [rows, cols] as codes, scales and offsets: the bytes that formats/mx_tensor.h's pack() gives.
  /// Nothing waits here for an error of the data: y.first_uncoded becomes the index of the first element of
  /// which a NaN is lost (a plain cast to a format without NaN; a block that is not finite below a scale
  /// without NaN), at most 2^31 - 1, or -1. Whoever keeps the bytes must look.
  virtual void pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) = 0;
  /// y [rows, cols] = the values of x, without its multiplier: those of `quantize`, if y has
  /// operand_dtype(); f32 and bf16 may be asked for of any x.
  virtual void unpack(const Tensor& y, const PackedTensor& x) = 0;

  // --- pointwise
  virtual void add(const Tensor& y, const Tensor& a, const Tensor& b) = 0;  ///< y may be a or b
  virtual void gelu(const Tensor& y, const Tensor& x, Gelu) = 0;
  virtual void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x,
                             Gelu) = 0;  ///< dx may be dy
  /// y[i] = x[i] / (1 - p) where uniform(i) >= p, else 0; y may be x. Backward is the same call on dy with
  /// the same key.
  virtual void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) = 0;

  // --- rows
  /// y = gain * (x - mean) * rstd + bias per row of x [rows, C]; bias may be empty. mean, rstd [rows] are
  /// outputs.
  virtual void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                          const Tensor& gain, const Tensor& bias, float eps) = 0;
  /// dgain, dbias [C] (dbias may be empty) are summed over rows; dx may be dy. `others`, if given, is what x
  /// gets from its other uses, and dx their sum, rounded once; it may be dx.
  virtual void layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias,
                                   const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                   const Tensor& gain, Write gain_bias, const Tensor& others = {}) = 0;
  virtual void softmax(const Tensor& y, const Tensor& x) = 0;
  virtual void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) = 0;
  /// losses[r] = -log softmax(logits[r])[targets[r]]; loss[1] = their mean. dlogits (empty: not wanted; may
  /// be logits) is the mean's gradient times `scale`. targets i32 [rows].
  virtual void cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits,
                             const Tensor& logits, const Tensor& targets, float scale) = 0;
  /// y[r] = table[tokens[r]] + positions[r % T]; positions [>= T, C] may be empty. tokens i32 [B, T].
  virtual void embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                         const Tensor& tokens) = 0;
  /// dtable [V, C], dpositions (may be empty); the order of additions is the order of the rows.
  virtual void embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                                  const Tensor& tokens, Write table, Write positions) = 0;

  // --- attention
  /// o [B, T, H D] = softmax(Q K^T / sqrt(D), causal) V per head (unquantized P and dS of bf16 activations
  /// may be rounded to bf16); lse [B, H, T] = log of the row sums, for backward. Each operand has its own
  /// stream: tensor ids draws.tensor_id + its place in AttentionQuant. elements are numbered in [B, H, T, D],
  /// P and dS in [B, H, T, T], of the global batch: draws.first_element counts rows of qkv (tokens), not
  /// elements.
  virtual void attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape,
                         const AttentionQuant&, const DrawKey& draws) = 0;
  virtual void attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                                  const Tensor& lse, AttentionShape, const AttentionQuant&,
                                  const DrawKey& draws) = 0;

  // --- update
  /// norm[1] = sqrt of the sum of squares over all tensors, in a fixed order; factor[1] = min(1, max_norm /
  /// norm), 1 if max_norm is 0; NaN, with or without a limit, if the norm is not finite.
  virtual void clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                           float max_norm) = 0;
  /// m, v and parameter in place, from gradient * factor[1]; they stay as they are if the factor is NaN.
  /// rates [3]: learning rate, 1 - beta1^t, 1 - beta2^t. And quantize(copies, parameter, draws) of the new
  /// parameter (after a factor of NaN: or not), which a device may do in the same pass.
  virtual void adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
                     const Tensor& factor, const Tensor& rates, const AdamWStep&,
                     std::span<QuantizedCopy> copies = {}, const DrawKey& draws = {}) = 0;
};

}  // namespace mxtape
