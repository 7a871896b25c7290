#pragma once
// For *_loops.cpp only: elementary functions of sixteen lanes, in additions and multiplications that are
// never contracted, so that every tier gives the same bits. tests/kernels/cpu/simd_math_test.cpp
// measures the stated errors. The polynomials are minimax fits by Remez's exchange algorithm, weighted for
// relative error.
#include "core/normal_tail.h"
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

// Adding it to a number below 2^22 leaves the nearest integer in the low bits of the significand.
inline constexpr float round_to_integer = 0x1.8p23f;

/// 2^n e^r for |r| <= ln(2) / 2 and an integer n in [-126, 127], given as n + round_to_integer.
MXT_LANES f32x16 scaled_exp(const f32x16& n_shifted, const f32x16& r) {
  // (e^r - 1 - r) / r^2, relative error in e^r 3.1e-9
  const f32x16 tail =
      (((r * 0x1.6a234ep-10f + 0x1.123a6cp-7f) * r + 0x1.5558f4p-5f) * r + 0x1.555490p-3f) * r +
      0x1.fffffcp-2f;
  return ((r * r * tail + r) + 1.0f) * floats((bits(n_shifted) + 127u) << 23);
}

/// `value`, but 0 where x < lowest, infinity where x > highest. A NaN passes.
MXT_LANES f32x16 in_range(const f32x16& value, const f32x16& x, float lowest, float highest) {
  return select(x < all(lowest), all(0.0f), select(x > all(highest), all(__builtin_inff()), value));
}

/// e^x within 1 ulp for x in [-87.3, 88.3]; 0 below, infinity above: e^x has no subnormal values, and ends at
/// 2^127.5. x = n ln 2 + r (Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 6).
MXT_LANES f32x16 exp(const f32x16& x) {
  constexpr float log2_e = 0x1.715476p+0f;
  constexpr float ln2_high = 0x1.62e4p-1f;    // 16 bits, so that n times it is exact
  constexpr float ln2_low = 0x1.7f7d1cp-20f;  // ln 2 - ln2_high
  const f32x16 shifted = x * log2_e + round_to_integer;
  const f32x16 n = shifted - round_to_integer;
  return in_range(scaled_exp(shifted, (x - n * ln2_high) - n * ln2_low), x, -87.3f, 88.3f);
}

/// 2^x within 1 ulp for x in [-126, 127.4]; 0 below, infinity above.
MXT_LANES f32x16 exp2(const f32x16& x) {
  constexpr float ln2 = 0x1.62e43p-1f;
  const f32x16 shifted = x + round_to_integer;
  return in_range(scaled_exp(shifted, (x - (shifted - round_to_integer)) * ln2), x, -126, 127.4f);
}

/// 1 - Phi(x) for x >= 0, from x and density = e^(-x^2 / 2): core/normal_tail.h. Within 6 ulp of the
/// value with an exact density.
MXT_LANES f32x16 normal_tail(const f32x16& x, const f32x16& density) {
  const f32x16 t = 1.0f / (x * normal_tail_width + 1.0f);
  f32x16 series = all(normal_tail_coefficient(0));
#pragma GCC unroll 9
  for (int k = 1; k < normal_tail_terms; ++k) series = series * t + normal_tail_coefficient(k);
  return density * (t * series);
}

}  // namespace mxtape::cpu::MXT_TIER
