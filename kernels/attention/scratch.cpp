#include "kernels/attention/scratch.h"

#include <algorithm>

#include "kernels/attention/slots.h"

namespace mxtape {
namespace {

/// Of an element, rounded; what is not rounded is not copied.
std::int64_t bytes_of(const Quantizer& q) { return q.is_identity() ? 0 : size_of(q.operand_dtype()); }

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
  // Head by head (attention_composed.cpp): what is there while one of the GEMMs runs.
  const std::int64_t square = s.time * s.time, narrow = s.time * s.width;
  const auto of_gemm = [&](const Quantizer& scores, const Quantizer& values) {
    return square * bytes_of(scores) + narrow * (f32_bytes + bytes_of(values));
  };
  const std::int64_t scores = narrow * (2 * f32_bytes + bytes_of(quant.qk_q) + bytes_of(quant.qk_k));
  const std::int64_t backward = std::max(
      {of_gemm(quant.dq_ds, quant.dq_k), of_gemm(quant.dk_ds, quant.dk_q), of_gemm(quant.dv_p, quant.dv_do)});
  return {std::max(3 * rounded + as_it_was,
                   square * f32_bytes + std::max(scores, of_gemm(quant.pv_p, quant.pv_v))),
          row_sums +
              std::max(7 * rounded + as_it_was, square * 2 * f32_bytes + narrow * 4 * f32_bytes + backward)};
}

}  // namespace mxtape
