#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

struct RotaryLoops {
  /// Turns the pairs (i, i + D / 2) of `heads` heads of D numbers, one behind the other, by the angles whose
  /// cosines and sines are given [D / 2]; `back`: by their negatives. y may be x.
  void (*turn)(float* y, const float* x, const float* cos, const float* sin, std::int64_t heads,
               std::int64_t D, bool back);
};

MXT_TIER_TABLE(RotaryLoops, rotary_loops)

}  // namespace mxtape::cpu
