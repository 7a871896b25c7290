#include <algorithm>
#include <vector>

#include "kernels/cpu/flush_subnormals.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/decode_loops.h"
#include "kernels/cpu/loops/few_rows_loops.h"
#include "kernels/cpu/loops/gemm_loops.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu {
namespace {

/// Scratch of this thread, from a cache line on.
template <class T>
T* scratch(std::int64_t count) {
  struct alignas(64) Line {
    T items[64 / sizeof(T)];
  };
  thread_local std::vector<Line> room;
  const auto lines = std::size_t(count) * sizeof(T) / sizeof(Line) + 1;
  if (room.size() < lines) room.resize(lines);
  return room.front().items;
}

/// A side of bf16 is widened: a here, b as it is read.
void multiply_few_rows(GemmJob job) {
  thread_local std::vector<float> wide;
  if (job.a.narrow || job.a.columns) {  // one row may be stored as a column
    const std::int64_t rows = job.a.columns ? job.K : job.M, cols = job.a.columns ? 1 : job.K;
    wide.resize(std::size_t(rows * cols));
    for (std::int64_t r = 0; r < rows; ++r)
      if (float* const to = wide.data() + r * cols; job.a.narrow)
        decode_loops().to_f32.from_bf16(to, static_cast<const std::uint16_t*>(job.a.x) + r * job.a.stride,
                                        cols, 1.0f);
      else
        std::copy_n(static_cast<const float*>(job.a.x) + r * job.a.stride, cols, to);
    job.a.x = wide.data(), job.a.stride = job.K;
  }
  const FewRowsLoops& loops = few_rows_loops();
  if (job.b.columns)
    (job.b.narrow ? loops.columns_bf16 : loops.columns_f32)(job);
  else
    (job.b.narrow ? loops.dots_bf16 : loops.dots_f32)(job);
}

void multiply(const GemmJob& job, bool few, bool by_pairs) {
  if (few) return multiply_few_rows(job);
  const FlushSubnormals flush(job.a.narrow && job.b.narrow);
  if (by_pairs) return best_pair_loops().gemm(job, scratch<Word>(PairGemm::scratch_words));
  gemm_loops().multiply(job, scratch<float>(GemmLoops::scratch_numbers));
}

GemmSide side(const MatrixView& x) {
  return {x.data, x.stride, x.dtype == DType::bf16, x.axis == Axis::column};
}

}  // namespace

bool has_amx() { return pair_tier() == PairTier::amx_bf16; }

std::string describe_gemms() {
  const auto name = best_pair_loops().gemm ? "avx512_bf16" : name_of(tier());
  return fmt::format("bf16 GEMMs {}", has_amx() ? "amx_bf16" : name);
}

void gemm_block(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b, std::int64_t M,
                std::int64_t N, std::int64_t K, Write write, const float* bias, const float* factor) {
  if (M == 0 || N == 0) return;
  const bool few = K == 0 || is_few_rows(a, M);  // those of no products, too
  const bool by_pairs = !few && a.dtype == DType::bf16 && b.dtype == DType::bf16 && best_pair_loops().gemm;
  const bool accumulate = write == Write::accumulate;
  // What is in c comes last.
  const bool apart = accumulate && !few && (bias || GemmJob::depth < K) && !(by_pairs && has_amx());
  if (!factor && !apart)
    return multiply({side(a), side(b), M, N, K, c, c_stride, bias, accumulate}, few, by_pairs);
  // Sums come in place, or in parts of so many rows and columns.
  constexpr std::int64_t part_rows = 1024, part_cols = 240;
  const std::int64_t rows_at_once = accumulate ? part_rows : M, cols_at_once = accumulate ? part_cols : N;
  thread_local std::vector<float> room;
  if (accumulate) room.resize(std::size_t(part_rows * part_cols));
  for (std::int64_t m = 0; m < M; m += rows_at_once)
    for (std::int64_t n = 0; n < N; n += cols_at_once) {
      const std::int64_t rows = std::min(rows_at_once, M - m), cols = std::min(cols_at_once, N - n);
      float* const to = c + m * c_stride + n;
      float* const sums = accumulate ? room.data() : to;
      const std::int64_t stride = accumulate ? part_cols : c_stride;
      multiply({side(a.from(m)), side(b.from(n)), rows, cols, K, sums, stride, nullptr, false}, few,
               by_pairs);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j) {
          const float sum = sums[i * stride + j] * (factor ? *factor : 1.0f);
          const float value = sum + (bias ? bias[n + j] : 0.0f);
          to[i * c_stride + j] = accumulate ? to[i * c_stride + j] + value : value;
        }
    }
}

}  // namespace mxtape::cpu
