#include "kernels/attention/scratch.h"

#include <algorithm>

#include "kernels/attention/slots.h"

namespace mxtape {
namespace {

constexpr std::int64_t bf16_bytes = 2, f32_bytes = 4;

/// Of an element, rounded; what is not rounded is not copied.
std::int64_t bytes_of(const Quantizer& q) { return q.is_identity() ? 0 : size_of(q.operand_dtype()); }
/// Of an element of an operand that stays while others are made.
std::int64_t held_bytes(const Quantizer& q) { return q.is_identity() ? f32_bytes : bytes_of(q); }

/// Head by head (composed.cpp): what is there while one of the GEMMs runs.
AttentionScratch by_heads(const AttentionShape& s, const AttentionQuant& quant) {
  const std::int64_t square = s.time * s.keys, rows = s.time * s.width, key_rows = s.keys * s.width;
  const std::int64_t held = key_rows * (held_bytes(quant.qk_k) + held_bytes(quant.pv_v));
  const std::int64_t forward = std::max(
      {key_rows * (held_bytes(quant.qk_k) + f32_bytes + bytes_of(quant.pv_v)),
       held + square * (f32_bytes + bytes_of(quant.qk_s)) + rows * (f32_bytes + bytes_of(quant.qk_q)),
       held + square * (f32_bytes + bytes_of(quant.pv_p)) + rows * f32_bytes});
  const std::int64_t keys =
      key_rows * (4 * f32_bytes + bytes_of(quant.qk_k) + bytes_of(quant.dq_k) + bytes_of(quant.dp_v));
  const auto of_gemm = [&](const Quantizer& scores, std::int64_t of_rows) {
    return square * bytes_of(scores) + rows * of_rows;
  };
  const std::int64_t gemm =
      std::max({of_gemm(quant.qk_s, 0), of_gemm(quant.dq_ds, f32_bytes),
                of_gemm(quant.dk_ds, bytes_of(quant.dk_q)), of_gemm(quant.dv_p, bytes_of(quant.dv_do)),
                rows * bytes_of(quant.qk_q), rows * bytes_of(quant.dp_do)});
  return {forward, keys + rows * 2 * f32_bytes + square * 2 * f32_bytes + gemm};
}

}  // namespace

AttentionScratch attention_scratch(AttentionKernels kernels, const AttentionShape& s,
                                   const AttentionQuant& quant, DType activations) {
  const std::int64_t row_sums = f32_bytes * s.batch * s.heads * s.time;
  if (kernels == AttentionKernels::cudnn) {
    constexpr std::int64_t tile = 128, padding = 256;
    const std::int64_t padded = (s.time + tile - 1) / tile * tile;
    return {padding, padding + row_sums + bf16_bytes * s.batch * s.heads * padded * padded};
  }

  const std::int64_t part = s.batch * s.time * s.heads * s.width;         // elements of q
  const std::int64_t key_part = s.batch * s.room * s.kv_heads * s.width;  // of k
  if (s.dropout == 0 && every_operand_is(quant, f32_passthrough)) return {0, row_sums};
  if (s.dropout == 0 && every_operand_is(quant, bf16_cast)) {
    const std::int64_t bytes = activations == DType::bf16 ? 0 : bf16_bytes, qkv = part + 2 * key_part;
    return {bytes * qkv, row_sums + bytes * (qkv + part)};
  }
  const std::int64_t as_it_was = size_of(activations) * std::max(part, key_part);
  const AttentionScratch one = by_heads(s, quant);
  return {std::max(bf16_bytes * (part + 2 * key_part) + as_it_was, one.forward),
          row_sums + std::max(bf16_bytes * (4 * part + 3 * key_part) + as_it_was, one.backward)};
}

}  // namespace mxtape
