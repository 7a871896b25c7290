#pragma once
#include "formats/element.h"

namespace mxtape {

/// How a value between two neighbours of a grid is rounded. All but `stochastic` are functions of the value
/// alone.
enum class Rounding : std::uint8_t {
  even,        ///< to nearest, ties to even: the only one that OCP MX requires
  away,        ///< to nearest, ties away from zero: microxcaling's "nearest"
  down,        ///< to nearest, ties to the smaller magnitude
  zero,        ///< truncate: microxcaling's "floor"
  stochastic,  ///< up with probability (x - below) / (above - below)
};

/// The numbers that a rounding loop needs; small enough for a kernel argument.
struct Grid {
  int min_exponent;   ///< below 2^min_exponent the step is constant
  int mantissa_bits;  ///< the step in binade e is 2^(e - mantissa_bits)
  float highest;      ///< largest value
  float lowest;       ///< smallest value: -highest, or -2^k for integers with full range
  bool even_code;     ///< TieRule::code on a grid without mantissa bits
};
constexpr Grid grid_of(const ElementFormat& f) {
  const float top = f.max_finite();
  float lowest = -top;
  if (f.full_range) {
    lowest = -1;
    for (int e = f.max_exponent() + 1; e > 0; --e) lowest *= 2;
    for (int e = f.max_exponent() + 1; e < 0; ++e) lowest /= 2;
  }
  return {f.min_exponent(), f.mantissa_bits, top, lowest,
          f.mantissa_bits == 0 && !f.is_integer() && f.tie == TieRule::code};
}

/// The exponent of the grid's step around x: of the binade of x, or of the subnormals.
MXT_HD constexpr int quantum_exponent(Grid g, float x) {
  const int exponent = int(bits_of(x) >> 23 & 0xff) - 127;
  return (exponent > g.min_exponent ? exponent : g.min_exponent) - g.mantissa_bits;
}

/// Clamps to the grid's range. NaN passes.
MXT_HD constexpr float saturate(Grid g, float x) {
  const float upper = x > g.highest ? g.highest : x;
  return upper < g.lowest ? g.lowest : upper;
}

/// Rounds to the nearest value of the grid, ties to even, saturating. NaN stays NaN, zeros and underflow keep
/// the sign. For |x| < 2^100, which scaled block elements are.
MXT_HD constexpr float round_even(Grid g, float x) {
  const float held = saturate(g, x);
  // Adding 1.5 * 2^23 quanta pushes the fraction off the end of the significand, so the adder itself rounds
  // to nearest even. Breaks under -ffast-math.
  const float shift = float_of(std::uint32_t(quantum_exponent(g, held) + 23 + 127) << 23) * 1.5f;
  const float rounded = (held + shift) - shift;
  return float_of((bits_of(rounded) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
}

/// Every deterministic rounding. The nearest-even result is corrected where the rule differs: x - nearest is
/// exact (Sterbenz), so ties and direction are seen without error.
MXT_HD constexpr float round_to(Grid g, Rounding rounding, float x) {
  const float magnitude = float_of(bits_of(x) & 0x7fffffffu);
  const float limit = (bits_of(x) & 0x80000000u) != 0 ? -g.lowest : g.highest;
  const float held = magnitude > limit ? limit : magnitude;
  const int step_exponent = quantum_exponent(g, held);
  const float step = power_of_two(step_exponent);
  const float shift = power_of_two(step_exponent + 23) * 1.5f;
  const float nearest = (held + shift) - shift;
  const float excess = held - nearest;
  float rounded = nearest;
  if (rounding == Rounding::away && excess == 0.5f * step) rounded = nearest + step;
  if (rounding == Rounding::down && excess == -0.5f * step) rounded = nearest - step;
  if (rounding == Rounding::zero && excess < 0) rounded = nearest - step;
  // Without mantissa bits the neighbours of a tie are step and 2 step: the one whose exponent field is even
  // wins.
  if (rounding == Rounding::even && g.even_code && (excess == 0.5f * step || excess == -0.5f * step) &&
      held >= step) {
    const int field = step_exponent - g.min_exponent + 1;
    rounded = (field & 1) == 0 ? step : 2 * step;
  }
  rounded = rounded > limit ? limit : rounded;
  return float_of(bits_of(rounded) | (bits_of(x) & 0x80000000u));
}

/// Stochastic rounding with `bits` random bits in the low end of `draw` (8 to 16): a result above |x| iff the
/// draw carries out of the discarded fraction. Integer arithmetic and one f32 addition, the same on every
/// device. A grid point of magnitude below the limit is never left; with 16 bits and bf16 input the mean is
/// exact.
MXT_HD constexpr float round_stochastic(Grid g, float x, std::uint32_t draw, int bits) {
  const float magnitude = float_of(bits_of(x) & 0x7fffffffu);
  const float limit = (bits_of(x) & 0x80000000u) != 0 ? -g.lowest : g.highest;
  const float held = magnitude > limit ? limit : magnitude;
  // held + 2^(e+1) has its unit in the last place at a fixed distance below the grid's step in binade e.
  const float base = power_of_two(quantum_exponent(g, held) + g.mantissa_bits + 1);
  const int below = 22 - g.mantissa_bits;
  const std::uint32_t sum = bits_of(held + base) + (draw << (below - bits));
  const float rounded = float_of(sum & ~((1u << below) - 1)) - base;
  const float kept = rounded > limit ? limit : rounded;
  return float_of(bits_of(kept) | (bits_of(x) & 0x80000000u));
}

static_assert(round_even(grid_of(e2m1), 2.5f) == 2 && round_even(grid_of(e2m1), -1e9f) == -6);
static_assert(round_to(grid_of(e2m1), Rounding::away, 2.5f) == 3 &&
              round_to(grid_of(e2m1), Rounding::down, 3.5f) == 3);
static_assert(round_to(grid_of(e3m0), Rounding::even, 3.0f) == 4 &&
              round_to(grid_of(int8), Rounding::zero, 1.999f) == 127.0f / 64);

}  // namespace mxtape
