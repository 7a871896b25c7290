#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "core/host_device.h"
#include "core/random.h"
#include "core/tensor.h"
#include "formats/quantize.h"
#include "formats/rotation/rotation.h"

namespace mxtape {

enum class Trans : bool { no, yes };
enum class Write : bool { overwrite, accumulate };
enum class Gelu : std::uint8_t { tanh, erf };

/// How the two sides of a GEMM are multiplied. Products of bf16 numbers are exact in all of them.
enum class GemmPath : std::uint8_t { f32, one_widened, both_widened, bf16 };
inline constexpr std::array<std::string_view, 4> gemm_path_names{
    "f32 GEMM", "f32 GEMM, one side widened from bf16",
    "f32 GEMM, both sides widened from bf16, exact products", "bf16 GEMM, exact products"};
constexpr GemmPath gemm_path(DType a, DType b, bool bf16_products = true) {
  if (a != DType::bf16 || b != DType::bf16) return a == b ? GemmPath::f32 : GemmPath::one_widened;
  return bf16_products ? GemmPath::bf16 : GemmPath::both_widened;
}

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
  Axis axis = Axis::row;
  Rotation rotation{};
  DrawKey signs{};  ///< of the rotation
  Tensor values{};
  Tensor multiplier{};
};

/// A matrix as it is stored (formats/codec/mx_tensor.h), on a device. Its parts have the sizes of
/// packed_layout(), and none where there is nothing to hold; codes, scales, offsets and multiplier are all
/// that unpacking needs, wherever they were made.
struct PackedTensor {
  Quantizer quantizer;
  Axis axis = Axis::row;
  std::int64_t rows = 0, cols = 0;
  Tensor codes{};          ///< u8: as MxTensor's
  Tensor scales{};         ///< u8: as MxTensor's
  Tensor offsets{};        ///< u8: two bytes of FP16 bits per block, low byte first
  Tensor multiplier{};     ///< f32 [1] if quantizer.has_multiplier()
  Tensor first_uncoded{};  ///< i32 [1]: see call::Pack
};

/// The extents of causal self-attention, and where its numbers lie. qkv is [B, T, 3, H, D]: queries, keys,
/// values of all heads side by side; o is [B, T, 1, H, D].
struct AttentionShape {
  std::int64_t batch, time, heads, width;  // B, T, H, D

  /// From a row of a head to its next, in a tensor [B, T, parts, H, D].
  MXT_HD constexpr std::int64_t stride(std::int64_t parts) const { return parts * heads * width; }
  /// The first number of head b H + h there.
  MXT_HD constexpr std::int64_t offset(std::int64_t head, std::int64_t part, std::int64_t parts) const {
    return head / heads * time * stride(parts) + (part * heads + head % heads) * width;
  }
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

/// An operand slot of attention, as the field of its quantizer.
using AttentionField = Quantizer AttentionQuant::*;

/// What AdamW keeps from step to step (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
struct AdamWStep {
  float beta1, beta2, eps, weight_decay;
};

}  // namespace mxtape
