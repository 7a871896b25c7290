#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

namespace mxtape::test {

inline constexpr double unit_roundoff = 0x1p-24;  // half an ulp of 1.0f

/// Worst-case relative error of n f32 roundings: n u / (1 - n u).
/// Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., Lemma 3.1.
constexpr double gamma(double n) { return n * unit_roundoff / (1 - n * unit_roundoff); }

/// Bound on |computed - exact| for a sum of n products whose magnitudes add up to `magnitude`, whatever the
/// order of additions. Higham, section 3.1.
constexpr double dot_bound(double n, double magnitude) { return gamma(n + 1) * magnitude; }

/// Every |got[i] - want[i]| <= bound[i]; names the worst element if not.
inline testing::AssertionResult within(std::span<const float> got, std::span<const double> want,
                                       std::span<const double> bound) {
  if (got.size() != want.size() || got.size() != bound.size())
    return testing::AssertionFailure()
           << got.size() << " numbers, want " << want.size() << " with " << bound.size() << " bounds";
  std::size_t worst = 0, failures = 0;
  double worst_ratio = -1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double(got[i]) - want[i]);
    if (error <= bound[i]) continue;  // false for NaN
    ++failures;
    const double ratio = std::isnan(error) ? INFINITY : error / bound[i];
    if (ratio > worst_ratio) worst = i, worst_ratio = ratio;
  }
  if (!failures) return testing::AssertionSuccess();
  return testing::AssertionFailure() << failures << " of " << got.size() << " out of bounds; worst [" << worst
                                     << "]: got " << got[worst] << ", want " << want[worst] << " +- "
                                     << bound[worst];
}

}  // namespace mxtape::test
