#pragma once
// For *_loops.cpp only: formats/round.h in sixteen lanes, bit for bit; formulas and reasons are there.
#include "formats/round.h"
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

MXT_LANES f32x16 saturated(const Grid& g, const f32x16& x) {
  return max(min(x, all(g.highest)), all(g.lowest));
}

/// Bits of 2^(q + add) * (1 + fraction / 2^23), q = quantum_exponent(g, x).
MXT_LANES u32x16 quantum_bits(const Grid& g, const f32x16& x, int add, int fraction = 0) {
  const i32x16 exponent = as_signed(bits(x) & 0x7f800000u);
  const i32x16 held = max(exponent, i32x16{} + ((g.min_exponent + 127) << 23));
  return as_unsigned(held + ((add - g.mantissa_bits) * (1 << 23) + fraction));
}
inline constexpr int half = 1 << 22;  // as a fraction

MXT_LANES f32x16 with_sign_of(const f32x16& magnitude, const f32x16& x) {
#if defined(__AVX512F__)  // one instruction, which g++ 12 does not see across integer and float operations
  constexpr int a_or_b_and_c = 0xf8;
  return (f32x16)_mm512_ternarylogic_epi32((__m512i)magnitude, (__m512i)x,
                                           _mm512_set1_epi32(std::int32_t(0x80000000u)), a_or_b_and_c);
#else
  return floats(bits(magnitude) | (bits(x) & 0x80000000u));
#endif
}

/// The largest magnitude that a value with x's sign can have.
MXT_LANES f32x16 limit_of(const Grid& g, const f32x16& x) {
  return select(as_signed(bits(x)) < 0, all(-g.lowest), all(g.highest));
}

/// round_even() for at most 21 mantissa bits: 1.5 * 2^23 quanta are for numbers of both signs, below 2^22
/// quanta. NaN becomes any number: its block's scale is NaN.
struct NearestEven {
  Grid g;
  [[gnu::always_inline]] f32x16 operator()(const f32x16& x, const std::uint16_t*, std::int64_t) const {
    const f32x16 held = saturated(g, x);
    const f32x16 shift = floats(quantum_bits(g, held, 23, half));
    return with_sign_of((held + shift) - shift, x);
  }
};

/// round_to() for every deterministic rounding.
struct Deterministic {
  Grid g;
  Correction c;
  [[gnu::always_inline]] f32x16 operator()(const f32x16& x, const std::uint16_t*, std::int64_t) const {
    const f32x16 limit = limit_of(g, x);
    const f32x16 held = min(magnitude(x), limit);
    const u32x16 step_bits = quantum_bits(g, held, 0);
    const f32x16 step = floats(step_bits);
    const f32x16 shift = floats(step_bits + (23u << 23));
    f32x16 nearest = (held + shift) - shift;
    if (g.even_code) {
      const u32x16 field = (step_bits >> 23) - std::uint32_t(127 + g.min_exponent - 1);
      const f32x16 even = select(as_signed(field & 1u) == 0, step, 2.0f * step);
      nearest = select(held == 1.5f * step, even, nearest);
    }
    const f32x16 excess = held - nearest;
    const f32x16 raised = select(excess > c.up * step, nearest + step, nearest);
    const f32x16 rounded = select(excess < c.down * step, nearest - step, raised);
    return with_sign_of(min(rounded, limit), x);
  }
};

/// round_by_average() (formats/round_by_average.h).
struct ByAverage {
  Grid g;
  const float* averages;
  [[gnu::always_inline]] f32x16 operator()(const f32x16& x, const std::uint16_t*, std::int64_t first) const {
    const f32x16 lower = magnitude(Deterministic{g, correction_of(Rounding::zero)}(x, nullptr, 0));
    const f32x16 step = floats(quantum_bits(g, lower, 0)), upper = lower + step;
    const f32x16 average = floats(bits(load(averages + first)) ^ (bits(x) & 0x80000000u));
    const i32x16 is_upper = (average >= lower + step * 0.5f) & (upper <= limit_of(g, x)) & (x != 0.0f);
    return with_sign_of(select(is_upper, upper, lower), x);
  }
};

/// round_stochastic() from 16 bits an element, of which the highest `sr_bits` are used.
struct Stochastic {
  Grid g;
  int sr_bits;
  [[gnu::always_inline]] f32x16 operator()(const f32x16& x, const std::uint16_t* draws,
                                           std::int64_t first) const {
    const f32x16 held = magnitude(saturated(g, x));
    const f32x16 base = floats(quantum_bits(g, held, g.mantissa_bits + 1));
    const int below = 22 - g.mantissa_bits;
    const u32x16 draw = load_halves(draws + first) >> std::uint32_t(16 - sr_bits)
                                                          << std::uint32_t(below - sr_bits);
    // Never beyond the grid's ends, which are values of the grid.
    return with_sign_of(floats((bits(held + base) + draw) & ~((1u << below) - 1)) - base, x);
  }
};

/// round_stochastic_exact() of x >= 0 from at most 16 bits.
struct StochasticExact {
  Grid g;
  int sr_bits;
  [[gnu::always_inline]] f32x16 operator()(const f32x16& x, const std::uint16_t* draws,
                                           std::int64_t first) const {
    const f32x16 held = min(x, all(g.highest));
    const u32x16 step = quantum_bits(g, held, 0);
    // Nothing rounds: steps are powers of two, of which there are fewer than 2^24.
    const f32x16 steps = held * floats((254u << 23) - step);
    const i32x16 whole = to_ints(steps);
    const i32x16 wanted = to_ints((steps - to_floats(whole)) * float(1 << sr_bits));
    const i32x16 draw = as_signed(load_halves(draws + first) >> std::uint32_t(16 - sr_bits));
    const i32x16 rounded = whole + ((draw + wanted) >> sr_bits);
    return min(to_floats(rounded) * floats(step), all(g.highest));
  }
};

/// to_bf16(), in the upper halves; what is left in the lower ones is not looked at.
MXT_LANES u32x16 nearest_bf16(const u32x16& u) {
  const u32x16 rounded = u + ((u >> 16 & 1u) + 0x7fffu);
  return select(as_signed(u & 0x7fffffffu) > 0x7f800000, u | 0x400000u, rounded);
}

}  // namespace mxtape::cpu::MXT_TIER
