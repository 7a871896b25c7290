#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Loops over rows of C (or V) numbers; outputs may be inputs.
struct SoftmaxLoops {
  void (*forward)(float* y, const float* x, std::int64_t rows, std::int64_t C);
  void (*backward)(float* dx, const float* dy, const float* y, std::int64_t rows, std::int64_t C);
  /// losses[r] = -log softmax(logits[r])[targets[r]]. dlogits = each * d losses[r] / d logits, unless null.
  void (*cross_entropy)(float* losses, float* dlogits, const float* logits, const std::int32_t* targets,
                        std::int64_t rows, std::int64_t V, float each);
};

MXT_TIER_TABLE(SoftmaxLoops, softmax_loops)

}  // namespace mxtape::cpu
