#pragma once
#include "formats/element.h"

namespace mxtape {

/// How |x| is rounded, in steps: to nearest, ties `even`, `away` from zero or `down`; to `zero`; at random.
enum class Rounding : std::uint8_t { even, away, down, zero, stochastic };

/// From n, |x|'s nearest even, to n + 1 step if |x| > n + up steps, to n - 1 step if |x| < n + down steps.
struct Correction {
  float up = 1, down = -1;  // never: |x| is half a step from n at most
};
inline constexpr float almost_half = 0x1.fffffep-2f;  // the f32 below 1/2: only ties exceed it

/// In the order of the enumerators, with their words and what docs/numerics.md says of them. Parser, kernels
/// and tests read this list: a rounding that corrects nearest even is an enumerator and a row.
struct NamedRounding {
  std::string_view name;
  Rounding value;
  std::string_view meaning;
  Correction correction{};
};
inline constexpr std::array roundings{
    NamedRounding{"even", Rounding::even, "the nearest integer, ties to even"},
    NamedRounding{"away", Rounding::away, "the nearest integer, ties up", {almost_half, -1}},
    NamedRounding{"down", Rounding::down, "the nearest integer, ties down", {1, -almost_half}},
    NamedRounding{"zero", Rounding::zero, "floor(t)", {1, 0}},
    NamedRounding{"stochastic", Rounding::stochastic, "floor(t + u), u in [0, 1)"}};
constexpr Correction correction_of(Rounding r) { return roundings[std::size_t(r)].correction; }

/// The numbers that a rounding loop needs; small enough for a kernel argument.
struct Grid {
  int min_exponent;   ///< below 2^min_exponent the step is constant
  int mantissa_bits;  ///< the step in binade e is 2^(e - mantissa_bits)
  float highest;      ///< largest value
  float lowest;       ///< smallest value: -highest, or -2^k for integers with full range
  bool even_code;     ///< TieRule::code on a grid without mantissa bits
};
constexpr Grid grid_of(const ElementFormat& f) {
  const float top = f.max_finite(),
              bottom = f.full_range ? times_power_of_two(-1, f.max_exponent() + 1) : -top;
  return {f.min_exponent(), f.mantissa_bits, top, bottom,
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
  const float held = float_of(bits_of(saturate(g, x)) & 0x7fffffffu);
  // Adding 2^23 quanta, of which no magnitude has more, pushes the fraction off the end of the significand,
  // so the adder itself rounds to nearest even. Breaks under -ffast-math.
  const float shift = float_of(std::uint32_t(quantum_exponent(g, held) + 23 + 127) << 23);
  const float rounded = (held + shift) - shift;
  return float_of((bits_of(rounded) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
}

/// Every deterministic rounding. The nearest-even result is corrected where the rule differs: x - nearest is
/// exact (Sterbenz), so ties and direction are seen without error.
MXT_HD constexpr float round_to(Grid g, Correction c, float x) {
  const float magnitude = float_of(bits_of(x) & 0x7fffffffu);
  const float limit = (bits_of(x) & 0x80000000u) != 0 ? -g.lowest : g.highest;
  const float held = magnitude > limit ? limit : magnitude;
  const int step_exponent = quantum_exponent(g, held);
  const float step = power_of_two(step_exponent);
  const float shift = power_of_two(step_exponent + 23);
  float nearest = (held + shift) - shift;
  // A tie without mantissa bits is between step and 2 step: the one whose exponent field is even wins.
  if (g.even_code && held == 1.5f * step)
    nearest = (step_exponent - g.min_exponent + 1) % 2 == 0 ? step : 2 * step;
  const float excess = held - nearest;
  float rounded = nearest;
  if (excess > c.up * step) rounded = nearest + step;
  if (excess < c.down * step) rounded = nearest - step;
  rounded = rounded > limit ? limit : rounded;
  return float_of(bits_of(rounded) | (bits_of(x) & 0x80000000u));
}

/// Stochastic rounding by draw < 2^bits, bits <= 22 - mantissa_bits: up iff the draw, added below the grid's
/// last bit, carries into it. One f32 addition and integer arithmetic, the same on every device; the addition
/// rounds |x| at 2^-(22 - mantissa_bits) steps. A value of the grid stays. 16 bits are exactly unbiased for
/// bf16 inputs of narrow formats.
MXT_HD constexpr float round_stochastic(Grid g, float x, std::uint32_t draw, int bits) {
  if (x != x) return x;  // a NaN of all ones, as GPUs make it, would carry into the sign
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

/// Stochastic rounding as floor(t + draw / 2^bits) steps, t = |x| / step, without any rounding of its own;
/// bits at most 32. Slower than round_stochastic: for more than 16 bits and for wide elements.
MXT_HD constexpr float round_stochastic_exact(Grid g, float x, std::uint32_t draw, int bits) {
  const std::uint32_t sign = bits_of(x) & 0x80000000u;
  const float magnitude = float_of(bits_of(x) & 0x7fffffffu);
  const float limit = sign != 0 ? -g.lowest : g.highest;
  const float held = magnitude > limit ? limit : magnitude;
  if (held != held) return x;
  if (held == 0) return float_of(sign);  // of a grid on one side of zero, too
  const int quantum = quantum_exponent(g, held);
  const int field = int(bits_of(held) >> 23);
  const std::uint64_t significand = (bits_of(held) & 0x7fffffu) | (field != 0 ? 0x800000u : 0u);
  const int shift =
      quantum - ((field != 0 ? field : 1) - 127 - 23);  // bits of the significand below the step
  if (shift <= 0) return float_of(bits_of(held) | sign);
  const std::uint64_t whole = shift < 24 ? significand >> shift : 0;
  const std::uint64_t fraction = significand - (shift < 24 ? whole << shift : 0);
  const std::uint64_t wanted = shift < 64 ? fraction << bits >> shift : 0;
  const bool up = draw + wanted >= std::uint64_t{1} << bits;
  const float rounded = float(whole + (up ? 1 : 0)) * power_of_two(quantum);
  return float_of(bits_of(rounded > limit ? limit : rounded) | sign);
}

/// Rounds to a format with f32's exponents (bf16 and other e8m<y>) by cutting significands to
/// `mantissa_bits`: the adders above would overflow there. Overflow goes to infinity; NaN stays.
MXT_HD constexpr float round_significand(int mantissa_bits, bool stochastic, Correction c, float x,
                                         std::uint32_t draw, int bits) {
  const std::uint32_t u = bits_of(x);
  const int cut = 23 - mantissa_bits;
  if ((u & 0x7fffffffu) >= 0x7f800000u || cut == 0) return x;
  const std::uint32_t step = 1u << cut;
  std::uint32_t add = step / 2 - 1 + (u >> cut & 1u);
  if (stochastic) add = bits <= cut ? draw << (cut - bits) : draw >> (bits - cut);
  std::uint32_t rounded = (u + add) & ~(step - 1);
  const float excess = float(std::int32_t(u - rounded));
  if (excess > c.up * float(step)) rounded += step;
  if (excess < c.down * float(step)) rounded -= step;
  return float_of(rounded);
}

static_assert(round_even(grid_of(e2m1), 2.5f) == 2 && round_even(grid_of(e2m1), -1e9f) == -6);
static_assert(round_to(grid_of(e2m1), correction_of(Rounding::away), 2.5f) == 3 &&
              round_to(grid_of(e2m1), correction_of(Rounding::down), 3.5f) == 3);
static_assert(round_to(grid_of(e3m0), {}, 3.0f) == 4 &&
              round_to(grid_of(int8), correction_of(Rounding::zero), 1.999f) == 127.0f / 64);

}  // namespace mxtape

// What is above relies on IEEE additions. mxtape's own build never asks for others (cmake/flags.cmake); a
// program that is linked with it might.
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__)
#error "mxtape: this file is compiled with -ffast-math, -Ofast or the like, which changes roundings"
#endif
