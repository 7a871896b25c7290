#include <algorithm>
#include <vector>

#include "kernels/cpu/flush_subnormals.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/few_rows_loops.h"
#include "kernels/cpu/loops/gemm_loops.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu {
namespace {

/// A copy of `view` [rows, cols as stored] in f32, without gaps.
const float* in_f32(std::vector<float>& room, const MatrixView& view, std::int64_t rows, std::int64_t cols) {
  room.resize(std::size_t(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    if (float* const to = room.data() + r * cols; view.dtype == DType::bf16)
      std::transform(static_cast<const bf16*>(view.data) + r * view.stride,
                     static_cast<const bf16*>(view.data) + r * view.stride + cols, to, to_f32);
    else
      std::copy_n(static_cast<const float*>(view.data) + r * view.stride, cols, to);
  return room.data();
}

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

/// A bf16 side b is widened as it is read.
void multiply_few_rows(GemmJob job, const MatrixView& a) {
  thread_local std::vector<float> wide;
  const bool column = job.a.columns;  // one row, stored as a column
  if (job.a.narrow || column) {
    job.a.x = in_f32(wide, a, column ? job.K : job.M, column ? 1 : job.K);
    job.a.stride = job.K;
  }
  const FewRowsLoops& loops = few_rows_loops();
  if (job.b.columns)
    (job.b.narrow ? loops.columns_bf16 : loops.columns_f32)(job);
  else
    (job.b.narrow ? loops.dots_bf16 : loops.dots_f32)(job);
}

GemmSide side(const MatrixView& x) {
  return {x.data, x.stride, x.dtype == DType::bf16, x.axis == Axis::column};
}

}  // namespace

bool has_amx() { return best_pair_loops().amx; }

std::string describe_gemms() {
  const PairLoops& pairs = best_pair_loops();
  return fmt::format("bf16 GEMMs {}", pairs.amx ? "amx_bf16" : pairs.gemm ? "avx512_bf16" : name_of(tier()));
}

void gemm_block(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b, std::int64_t M,
                std::int64_t N, std::int64_t K, Write write, const float* bias, const float* factor) {
  if (M == 0 || N == 0) return;
  const bool narrow = a.dtype == DType::bf16 && b.dtype == DType::bf16;
  const PairLoops& pairs = best_pair_loops();
  const bool few = K == 0 || is_few_rows(a, M), by_pairs = !few && narrow && pairs.gemm;
  // What is in c comes last.
  const bool apart =
      write == Write::accumulate && !few && (bias || GemmJob::depth < K) && !(by_pairs && pairs.amx);
  if (factor || apart) {
    thread_local std::vector<float> room;
    const bool in_place = write == Write::overwrite;
    room.resize(in_place ? 0 : std::size_t(M * N));
    float* const sums = in_place ? c : room.data();
    const std::int64_t stride = in_place ? c_stride : N;
    gemm_block(sums, stride, a, b, M, N, K);
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        float& out = c[m * c_stride + n];
        const float value = sums[m * stride + n] * (factor ? *factor : 1.0f) + (bias ? bias[n] : 0.0f);
        out = in_place ? value : out + value;
      }
    return;
  }
  const GemmJob job{side(a), side(b), M, N, K, c, c_stride, bias, write == Write::accumulate};
  if (few) return multiply_few_rows(job, a);  // those of no products, too
  const FlushSubnormals flush(narrow);
  if (by_pairs) return pairs.gemm(job, scratch<Word>(PairGemm::scratch_words));
  gemm_loops().multiply(job, scratch<float>(GemmLoops::scratch_numbers));
}

}  // namespace mxtape::cpu
