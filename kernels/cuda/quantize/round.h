#pragma once
#include <cmath>

#include "formats/block.h"

namespace mxtape::cuda {

/// The draws of two elements from a word with 16 random bits for each, of which the highest `bits` are used.
struct DrawPair {
  std::uint32_t low, high;
};
MXT_HD constexpr DrawPair draw_pair(std::uint32_t word, int bits) {
  return {(word & 0xffffu) >> (16 - bits), word >> (32 - bits)};
}

/// formats/round.h with fewer instructions, for grids that are symmetric: both sides share one limit, the
/// scaling of the magic numbers is left to fused multiply-adds, which round once as the additions there do,
/// and the limit is applied once, before rounding, as it is a value of the grid itself. The same results for
/// everything but NaN, which blocks' scales carry.
struct FastGrid {
  float limit;              ///< largest magnitude
  std::uint32_t least;      ///< bits of 2^min_exponent
  float magic;              ///< even: 2^23 steps of the binade of 1; stochastic: 2
  std::uint32_t kept;       ///< stochastic: bits of the sum that belong to the grid
  std::uint32_t draw_unit;  ///< stochastic: what a draw of 1 adds to the sum
};

/// What round_even_fast() and round_stochastic_fast() cover.
constexpr bool has_fast_grid(const BlockRule& r) {
  const bool covered =
      r.rounding == Rounding::even ? !r.grid.even_code : r.rounding == Rounding::stochastic && !r.sr_exact;
  return covered && !r.wide && r.saturates && r.grid.lowest == -r.grid.highest;
}

constexpr FastGrid fast_grid(const BlockRule& r) {
  const int below = 22 - r.grid.mantissa_bits;  // as round_stochastic()
  const bool stochastic = r.rounding == Rounding::stochastic;
  return {r.grid.highest, bits_of(power_of_two(r.grid.min_exponent)),
          stochastic ? 2.0f : power_of_two(23 - r.grid.mantissa_bits), ~((1u << below) - 1),
          stochastic ? 1u << (below - r.sr_bits) : 0};
}

/// 2^e of the binade in which the step of `held` is that of its exponent: of its own, or of the smallest
/// normals.
MXT_HD float binade_of(const FastGrid& g, float held) {
  const std::uint32_t own = bits_of(held) & 0x7f800000u;
  return float_of(own > g.least ? own : g.least);
}
MXT_HD float with_sign_of(float magnitude, float x) {
  return float_of(bits_of(magnitude) | (bits_of(x) & 0x80000000u));
}

/// round_even().
MXT_HD float round_even_fast(const FastGrid& g, float x) {
  const float held = fminf(fabsf(x), g.limit);
  const float binade = binade_of(g, held);
  return with_sign_of(fmaf(-g.magic, binade, fmaf(g.magic, binade, held)), x);
}

/// round_stochastic().
MXT_HD float round_stochastic_fast(const FastGrid& g, float x, std::uint32_t draw) {
  const float held = fminf(fabsf(x), g.limit);
  const float binade = binade_of(g, held);
  const std::uint32_t sum = bits_of(fmaf(g.magic, binade, held)) + draw * g.draw_unit;
  return with_sign_of(fmaf(-g.magic, binade, float_of(sum & g.kept)), x);
}

/// round_element(). NaN taken out before its branches changes nothing but registers: the stochastic kernel of
/// quantize_pairs.cu takes 77 so, and 80 without.
MXT_HD float round_any(const BlockRule& r, float x, std::uint32_t draw) {
  return x != x ? x : round_element(r, x, draw);
}

}  // namespace mxtape::cuda
