#include "kernels/cpu/few_rows.h"

#include <vector>

#include "kernels/cpu/loops/few_rows_loops.h"

namespace mxtape::cpu {

void multiply_few_rows(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b,
                       std::int64_t M, std::int64_t N, std::int64_t K, Write write, const float* bias) {
  thread_local std::vector<float> wide;
  FewRowsJob job{.c = c,
                 .c_stride = c_stride,
                 .a = static_cast<const float*>(a.data),
                 .a_stride = a.stride,
                 .b = b.data,
                 .b_stride = b.stride,
                 .M = M,
                 .N = N,
                 .K = K,
                 .bias = bias,
                 .accumulate = write == Write::accumulate};
  const bool column = a.axis == Axis::column;  // one row, stored as a column
  if (a.dtype == DType::bf16 || column) {
    wide.resize(std::size_t(M * K));
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t at = column ? k * a.stride : m * a.stride + k;
        wide[std::size_t(m * K + k)] = a.dtype == DType::bf16 ? to_f32(static_cast<const bf16*>(a.data)[at])
                                                              : static_cast<const float*>(a.data)[at];
      }
    job.a = wide.data();
    job.a_stride = K;
  }
  const FewRowsLoops& loops = few_rows_loops();
  const bool narrow = b.dtype == DType::bf16;
  if (b.axis == Axis::row)
    (narrow ? loops.dots_bf16 : loops.dots_f32)(job);
  else
    (narrow ? loops.columns_bf16 : loops.columns_f32)(job);
}

}  // namespace mxtape::cpu
