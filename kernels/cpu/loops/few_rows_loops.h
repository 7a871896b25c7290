#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// c[M, N] = a[M, K] op(b) (+ bias [N]) (+ c). Rows of each matrix are a stride of numbers apart.
struct FewRowsJob {
  float* c;
  std::int64_t c_stride;
  const float* a;
  std::int64_t a_stride;
  const void* b;  ///< f32 or bf16, [N, K] or [K, N]
  std::int64_t b_stride;
  std::int64_t M, N, K;
  const float* bias;  ///< null: none
  bool accumulate;
};

/// A number of c depends on its row of a and its column of op(b) alone, not on M, N, piece or tier. Zeros at
/// the end of a row of a add nothing.
struct FewRowsLoops {
  /// b [N, K]. Number k of a sum goes to lane k % 16, first to last; then the lanes are added.
  void (*dots_f32)(const FewRowsJob&);
  void (*dots_bf16)(const FewRowsJob&);
  /// b [K, N]. Sums run from the first k to the last.
  void (*columns_f32)(const FewRowsJob&);
  void (*columns_bf16)(const FewRowsJob&);
};

MXT_TIER_TABLE(FewRowsLoops, few_rows_loops)

}  // namespace mxtape::cpu
