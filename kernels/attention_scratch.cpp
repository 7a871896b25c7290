#include "kernels/attention_scratch.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/attention_slots.h"

namespace mxtape {
namespace {

/// Of an element of each, rounded; what is not rounded is not copied.
std::int64_t bytes_of(std::initializer_list<Quantizer> quantizers) {
  std::int64_t bytes = 0;
  for (const Quantizer& q : quantizers) bytes += q.is_identity() ? 0 : size_of(q.operand_dtype());
  return bytes;
}

}  // namespace

AttentionScratch attention_scratch(AttentionKernels kernels, const AttentionShape& s,
                                   const AttentionQuant& quant, DType activations) {
  constexpr std::int64_t bf16_bytes = 2, f32_bytes = 4;
  const std::int64_t row_sums = f32_bytes * s.batch * s.heads * s.time;
  if (kernels == AttentionKernels::cudnn) {
    constexpr std::int64_t tile = 128, padding = 256;
    const std::int64_t padded = (s.time + tile - 1) / tile * tile;
    return {padding, padding + row_sums + bf16_bytes * s.batch * s.heads * padded * padded};
  }

  const std::int64_t part = s.batch * s.time * s.heads * s.width;  // elements of q
  if (every_operand_is(quant, f32_passthrough)) return {0, row_sums};
  if (every_operand_is(quant, bf16_cast)) {
    const std::int64_t copies = activations == DType::bf16 ? 0 : bf16_bytes * part;
    return {3 * copies, row_sums + 4 * copies};
  }
  const std::int64_t as_it_was = size_of(activations) * part, rounded = bf16_bytes * part;
  const std::int64_t square = s.time * s.time, narrow = s.time * s.width;
  return {
      std::max(3 * rounded + as_it_was,
               square * (f32_bytes + bytes_of({quant.pv_p})) +
                   narrow * (2 * f32_bytes + bytes_of({quant.qk_q, quant.qk_k, quant.pv_v}))),
      row_sums + std::max(7 * rounded + as_it_was,
                          square * (2 * f32_bytes + bytes_of({quant.dv_p, quant.dq_ds, quant.dk_ds})) +
                              narrow * (5 * f32_bytes + bytes_of({quant.dv_do, quant.dq_k, quant.dk_q})))};
}

}  // namespace mxtape
