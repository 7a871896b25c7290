#pragma once
#include <cstdint>

#include "core/host_device.h"
#include "formats/quantizer.h"

namespace mxtape {

/// Which keys a query sees: always the first so many.
enum class AttentionMask : std::uint8_t {
  causal,  ///< query i those up to its own position, 0 ... first_position + i
  none     ///< all
};

/// Where one part (Q, K, V or O) lies in a tensor: matrices [rows, width] of all heads side by side.
struct AttentionPart {
  std::int64_t first;     ///< number of head 0 of sequence 0
  std::int64_t sequence;  ///< from a sequence to its next
  std::int64_t row;       ///< from a row to its next
  std::int64_t rows, heads, width;
  /// The first number of head b heads + h.
  MXT_HD constexpr std::int64_t offset(std::int64_t head) const {
    return first + head / heads * sequence + head % heads * width;
  }
};

/// What attention is asked for, but for its numbers. A row of qkv [B, T, (H + 2 G) D] holds the queries of
/// all heads, their keys, their values. Query head h reads key head h / (H / G): grouped queries (Ainslie et
/// al. 2023, arXiv:2305.13245), one key head for all with G = 1. Keys and values of their own tensor
/// [B, room, 2 G D], keys first, may have another length; the first `keys` rows of a sequence count. O is
/// [B, T, H D].
struct AttentionShape {
  std::int64_t batch, time, heads, width;  ///< B, T queries, H, D
  std::int64_t kv_heads = heads;           ///< G, divides H
  AttentionMask mask = AttentionMask::causal;
  std::int64_t keys = time;         ///< of a sequence; T if they lie with the queries
  std::int64_t first_position = 0;  ///< of query 0 among the keys, for the causal mask
  bool own_keys = false;            ///< keys and values have a tensor of their own
  std::int64_t room = keys;         ///< rows of a sequence there
  float dropout = 0;                ///< probability with which a P becomes 0, the others are / (1 - dropout)

  MXT_HD constexpr std::int64_t group() const { return heads / kv_heads; }  ///< query heads of a key head
  /// Of query head b H + h: b G + its key head.
  MXT_HD constexpr std::int64_t key_head(std::int64_t head) const { return head / group(); }
  /// Keys that query i sees, of a sequence with `length` keys.
  MXT_HD constexpr std::int64_t seen(std::int64_t i, std::int64_t length) const {
    const std::int64_t past = first_position + i + 1;
    return mask == AttentionMask::none || length < past ? length : past;
  }
  /// True if query i sees keys 0 ... i of T, and P is not dropped: what every kernel can do.
  constexpr bool is_causal_self() const {
    return mask == AttentionMask::causal && keys == time && !first_position && !own_keys && dropout == 0;
  }

  /// A row of qkv, or of q.
  MXT_HD constexpr std::int64_t q_row() const { return (heads + (own_keys ? 0 : 2 * kv_heads)) * width; }
  MXT_HD constexpr AttentionPart q() const { return {0, time * q_row(), q_row(), time, heads, width}; }
  MXT_HD constexpr AttentionPart k() const { return key_part(0); }
  MXT_HD constexpr AttentionPart v() const { return key_part(1); }
  MXT_HD constexpr AttentionPart o() const {
    return {0, time * heads * width, heads * width, time, heads, width};
  }

 private:
  MXT_HD constexpr AttentionPart key_part(std::int64_t part) const {
    const std::int64_t row = own_keys ? 2 * kv_heads * width : q_row();
    const std::int64_t first = ((own_keys ? 0 : heads) + part * kv_heads) * width;
    return {first, room * row, row, keys, kv_heads, width};
  }
};

/// Throws Error(internal) if the fields do not fit each other.
void check(const AttentionShape&);

/// Roundings of attention's operands. Blocks run along the axis that each GEMM sums over: D for q, k, do
/// (dp), v (dp); keys for p, v (pv), ds (dq), k (dq); queries for p, do (dv), ds, q (dk). Each operand of
/// each head is a tensor of its own, [T, D] or [T, keys], K and V of a key head one for all its query heads:
/// blocks start at its first row, a scale of the whole tensor (NVFP4) is one per head, and masked entries of
/// P and dS are zeros of their blocks. P is rounded after dropout.
struct AttentionQuant {
  Quantizer qk_q, qk_k;   ///< S = Q K^T / sqrt(D)
  Quantizer pv_p, pv_v;   ///< O = P V, P = softmax(S) normalised
  Quantizer dv_p, dv_do;  ///< dV = P^T dO
  Quantizer dp_do, dp_v;  ///< dP = dO V^T
  Quantizer dq_ds, dq_k;  ///< dQ = dS K
  Quantizer dk_ds, dk_q;  ///< dK = dS^T Q
  /// Of Q K^T before it is scaled, along keys, with zeros where it is masked; backward takes it for the
  /// identity.
  Quantizer qk_s{};
  bool operator==(const AttentionQuant&) const = default;
};

/// An operand slot of attention, as the field of its quantizer.
using AttentionField = Quantizer AttentionQuant::*;

}  // namespace mxtape
