#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Loops over rows of C (or V) numbers; outputs may be inputs, those of norm_backward as it says.
struct RowLoops {
  /// Layer norms, and RMSNorms, whose mean is null and taken as 0. bias may be null.
  void (*norm)(float* y, float* mean, float* rstd, const float* x, const float* gain, const float* bias,
               std::int64_t rows, std::int64_t C, float eps);
  /// dgain [C] and dbias [C] are added to, row after row; dbias may be null, and so may others, which is
  /// added to dx. dx may be dy or others.
  void (*norm_backward)(float* dx, float* dgain, float* dbias, const float* dy, const float* x,
                        const float* mean, const float* rstd, const float* gain, const float* others,
                        std::int64_t rows, std::int64_t C);
  /// losses[r] = -log softmax(logits[r])[targets[r]]. dlogits = each * d losses[r] / d logits, unless null.
  void (*cross_entropy)(float* losses, float* dlogits, const float* logits, const std::int32_t* targets,
                        std::int64_t rows, std::int64_t V, float each);
};

MXT_TIER_TABLE(RowLoops, row_loops)

}  // namespace mxtape::cpu
