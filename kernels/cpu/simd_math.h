#pragma once
// For *_loops.cpp only: elementary functions of sixteen lanes, in additions and multiplications that are
// never contracted, so that every tier gives the same bits. tests/kernels/simd_math_test.cpp measures the
// stated errors. The polynomials are minimax fits by Remez's exchange algorithm, weighted for relative error.
#include "kernels/cpu/simd.h"

namespace mxtape::cpu::MXT_TIER {

/// e^x, within 1 ulp (1.5 where the result is subnormal). Above 88.73 infinity, below -104 zero, NaN stays
/// NaN. x = n ln 2 + r with |r| <= ln(2) / 2, e^x = 2^n e^r (Cody & Waite, Software Manual for the Elementary
/// Functions, 1980, chapter 6).
MXT_LANES f32x16 exp(const f32x16& x) {
  constexpr float log2_e = 0x1.715476p+0f;
  constexpr float ln2_high = 0x1.62e4p-1f;                     // 16 bits, so that n times it is exact
  constexpr float ln2_low = 0x1.7f7d1cp-20f;                   // ln 2 - ln2_high
  constexpr float round_to_integer = 0x1.8p23f;                // adding it leaves the integer in the low bits
  const f32x16 below = select(x > all(89.0f), all(89.0f), x);  // e^89 overflows as it should
  const f32x16 held = select(below < all(-105.0f), all(-105.0f), below);
  const f32x16 shifted = held * log2_e + round_to_integer;
  const f32x16 n = shifted - round_to_integer;
  const f32x16 r = (held - n * ln2_high) - n * ln2_low;
  // (e^r - 1 - r) / r^2, relative error in e^r 3.1e-9
  const f32x16 tail =
      (((r * 0x1.6a234ep-10f + 0x1.123a6cp-7f) * r + 0x1.5558f4p-5f) * r + 0x1.555490p-3f) * r +
      0x1.fffffcp-2f;
  const f32x16 power = (r * r * tail + r) + 1.0f;
  // 2^n in two factors, because 2^n itself may be subnormal or above the largest number.
  const i32x16 whole = as_signed(bits(shifted) - bits(all(round_to_integer)));
  const i32x16 half = whole >> 1;
  const f32x16 first = floats(as_unsigned((half + 127) << 23));
  const f32x16 second = floats(as_unsigned((whole - half + 127) << 23));
  return power * first * second;
}

/// 1 - Phi(x) for x >= 0, from x and density = e^(-x^2 / 2); Phi is the standard normal distribution
/// function. Within 6 ulp of the value with an exact density. The form of Hastings (Abramowitz &
/// Stegun 26.2.17) with ten coefficients fitted on [0, 14.5], where the density is at least half the smallest
/// subnormal; relative error 3.2e-9.
MXT_LANES f32x16 normal_tail(const f32x16& x, const f32x16& density) {
  const f32x16 t = 1.0f / (x * 0.24f + 1.0f);
  constexpr float coefficients[] = {0.025517954f, -0.1245895f,  0.2053576f,   -0.144092f,   0.14128736f,
                                    0.028252339f, 0.087724838f, 0.088943143f, 0.095856132f, 0.095742134f};
  f32x16 series = all(coefficients[0]);
#pragma GCC unroll 9
  for (int k = 1; k < 10; ++k) series = series * t + coefficients[k];
  return density * (t * series);
}

}  // namespace mxtape::cpu::MXT_TIER
