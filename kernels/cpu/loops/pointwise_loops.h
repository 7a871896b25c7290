#pragma once
#include "core/random.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Loops over n elements, or over rows; outputs may be inputs.
struct PointwiseLoops {
  void (*add)(float* y, const float* a, const float* b, std::int64_t n);
  void (*gelu_tanh)(float* y, const float* x, std::int64_t n);
  void (*gelu_erf)(float* y, const float* x, std::int64_t n);
  void (*gelu_tanh_backward)(float* dx, const float* dy, const float* x, std::int64_t n);
  void (*gelu_erf_backward)(float* dx, const float* dy, const float* x, std::int64_t n);
  /// y, dy [rows, F], x [rows, 2 F]; here y may not be x.
  void (*swiglu)(float* y, const float* x, std::int64_t rows, std::int64_t F);
  void (*swiglu_backward)(float* dx, const float* dy, const float* x, std::int64_t rows, std::int64_t F);
  /// y and x start at element `first` of the tensor that `key` numbers.
  void (*dropout)(float* y, const float* x, std::int64_t n, float p, const DrawKey& key, std::int64_t first);
};

MXT_TIER_TABLE(PointwiseLoops, pointwise_loops)

}  // namespace mxtape::cpu
