#pragma once
#include "core/host_device.h"

namespace mxtape {

/// 1 - Phi(x) for x >= 0, Phi being the standard normal distribution function, is e^(-x^2 / 2) t s(t) with
/// t = 1 / (1 + normal_tail_width x) and a polynomial s: the form of Hastings (Abramowitz & Stegun 26.2.17)
/// with ten coefficients, a minimax fit on [0, 14.5], where the density is at least half the smallest
/// subnormal; relative error 3.2e-9.
inline constexpr float normal_tail_width = 0.24f;
inline constexpr int normal_tail_terms = 10;

/// The coefficients of s, the highest power's first.
MXT_HD constexpr float normal_tail_coefficient(int k) {
  constexpr float coefficients[normal_tail_terms] = {0.025517954f, -0.1245895f,  0.2053576f,   -0.144092f,
                                                     0.14128736f,  0.028252339f, 0.087724838f, 0.088943143f,
                                                     0.095856132f, 0.095742134f};
  return coefficients[k];
}

}  // namespace mxtape
