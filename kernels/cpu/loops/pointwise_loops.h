#pragma once
#include "kernels/calls_rows.h"
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
  /// Turns the pairs (i, i + D / 2) of `heads` heads of D numbers, one behind the other, by the angles whose
  /// cosines and sines are given [D / 2]; `back`: by their negatives. y may be x.
  void (*turn)(float* y, const float* x, const float* cos, const float* sin, std::int64_t heads,
               std::int64_t D, bool back);
  /// The sum of x[i]^2, in double.
  double (*squares)(const float* x, std::int64_t n);
  /// One step on n elements, from g * clip.
  void (*adamw)(float* p, float* m, float* v, const float* g, std::int64_t n, float clip, const float* rates,
                const AdamWStep&);
};

MXT_TIER_TABLE(PointwiseLoops, pointwise_loops)

}  // namespace mxtape::cpu
