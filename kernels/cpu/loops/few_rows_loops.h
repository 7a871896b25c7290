#pragma once
#include "kernels/cpu/loops/gemm_loops.h"

namespace mxtape::cpu {

/// Products of few rows of a, in f32, for any job. A number of c depends on its row of a and its line of b
/// alone, not on M, N, piece or tier. Zeros at the end of a row of a add nothing.
struct FewRowsLoops {
  /// b's rows. Number k of a sum goes to lane k % 16, first to last; then the lanes are added.
  void (*dots_f32)(const GemmJob&);
  void (*dots_bf16)(const GemmJob&);
  /// b's columns. Sums run from the first k to the last.
  void (*columns_f32)(const GemmJob&);
  void (*columns_bf16)(const GemmJob&);
};

MXT_TIER_TABLE(FewRowsLoops, few_rows_loops)

}  // namespace mxtape::cpu
