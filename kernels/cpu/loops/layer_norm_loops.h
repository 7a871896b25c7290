#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Loops over rows of C numbers: of layer norms, and of RMSNorms, whose mean is null and taken as 0.
struct LayerNormLoops {
  /// bias may be null.
  void (*forward)(float* y, float* mean, float* rstd, const float* x, const float* gain, const float* bias,
                  std::int64_t rows, std::int64_t C, float eps);
  /// dgain [C] and dbias [C] are added to, row after row; dbias may be null, and so may others, which is
  /// added to dx. dx may be dy or others.
  void (*backward)(float* dx, float* dgain, float* dbias, const float* dy, const float* x, const float* mean,
                   const float* rstd, const float* gain, const float* others, std::int64_t rows,
                   std::int64_t C);
};

MXT_TIER_TABLE(LayerNormLoops, layer_norm_loops)

}  // namespace mxtape::cpu
