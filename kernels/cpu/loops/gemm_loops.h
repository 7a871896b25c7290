#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Lines along k: the rows of a row-major matrix, or its columns. Its rows are `stride` numbers apart.
struct GemmSide {
  const void* x;
  std::int64_t stride;
  bool narrow;  ///< bf16, else f32
  bool columns;
};

/// c[M, N] = sum over k of a(m, k) b(n, k) (+ bias [N]), or c += without a bias. No extent is 0.
///
/// `depth` products at a time are added up by fma, first to last, beginning with 0; then these sums, first to
/// last; then the bias.
struct GemmJob {
  GemmSide a, b;
  std::int64_t M, N, K;
  float* c;
  std::int64_t c_stride;
  const float* bias;  ///< null: none
  bool accumulate;

  static constexpr std::int64_t depth = 512;
};

struct GemmLoops {
  static constexpr std::int64_t lines_of_a = 96, numbers_of_b = 1 << 17, padding = 16;
  static constexpr std::int64_t of_a = lines_of_a * (GemmJob::depth + padding);
  static constexpr std::int64_t scratch_numbers = of_a + numbers_of_b;
  void (*multiply)(const GemmJob&, float* scratch);
};

MXT_TIER_TABLE(GemmLoops, gemm_loops)

}  // namespace mxtape::cpu
