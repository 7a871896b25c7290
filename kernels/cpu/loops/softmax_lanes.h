#pragma once
// For *_loops.cpp only: the steps of a softmax over n numbers.
#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/simd_math.h"

namespace mxtape::cpu::MXT_TIER {

/// The largest of n > 0 numbers. A NaN may be passed over: the exponentials show it.
MXT_LANES float largest_of(const float* x, std::int64_t n) {
  f32x16 top = all(x[0]);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) top = max(top, load(x + i));
  float result = largest(top);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

/// Sum of e^(scale x - shift) over n numbers; the terms go to y (may be x) unless it is null. Every 1024
/// terms are summed on their own first, so that long rows lose no more digits than short ones.
MXT_LANES float exp_sum(float* y, const float* x, std::int64_t n, float scale, float shift) {
  constexpr std::int64_t piece = 1024;
  float total = 0;
  for (std::int64_t begin = 0; begin < n; begin += piece) {
    const std::int64_t count = n - begin < piece ? n - begin : piece;
    total += sum_lanes(count, [&](std::int64_t i, auto l) {
      const f32x16 e = exp(l.load(x + begin + i) * scale - shift);
      if (y) l.store(y + begin + i, e);
      return l.keep(e);
    });
  }
  return total;
}

MXT_LANES void multiply(float* y, const float* x, std::int64_t n, float factor) {
  for_lanes(n, [&](std::int64_t i, auto l) { l.store(y + i, l.load(x + i) * factor); });
}

}  // namespace mxtape::cpu::MXT_TIER
