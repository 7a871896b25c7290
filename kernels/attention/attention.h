#pragma once
#include <cstdint>

#include "core/host_device.h"
#include "formats/quantizer.h"

namespace mxtape {

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

}  // namespace mxtape
