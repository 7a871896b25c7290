#pragma once
#include "kernels/backend.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

struct UpdateLoops {
  /// The sum of x[i]^2, in double.
  double (*squares)(const float* x, std::int64_t n);
  /// One step on n elements, from g * clip.
  void (*adamw)(float* p, float* m, float* v, const float* g, std::int64_t n, float clip, const float* rates,
                const AdamWStep&);
};

MXT_TIER_TABLE(UpdateLoops, update_loops)

}  // namespace mxtape::cpu
