#pragma once
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/quantize/round.h"

namespace mxtape::cuda {

/// formats/round.h for pairs of bf16 whose blocks have power-of-two scales. An element is not brought to the
/// grid and back: the grid is brought to the block, in the numbers of a PairBlock, so nothing is multiplied
/// by a scale. All but the sum that random bits are added to is done in bf16, two elements an instruction,
/// and exactly: elements and sums have 8 bits, what is taken off again is a power of two. The limit is
/// applied last, being a value of the grid. Results are those of the definition for blocks that pair_block()
/// covers.
struct PairGrid {
  float smallest, highest;    ///< 2^min_exponent and the largest value, before scaling
  std::uint32_t magic;        ///< even: 2^7 steps of the binade of 1, twice
  std::uint32_t minus_magic;  ///< its negative
  std::uint32_t kept;       ///< stochastic: bits of the sum that belong to the grid, of its upper half, twice
  std::uint32_t draw_unit;  ///< stochastic: what a draw of 1 adds to the sum
};

/// What a pair of elements is rounded with, in the halves of words, as bf16.
struct PairBlock {
  std::uint32_t least;  ///< the binade below which the step does not shrink
  std::uint32_t limit;  ///< the largest value; 0 for blocks that become zero, NaN for those that are
};

/// True of the rules that pairs are rounded by: those of has_fast_grid() with elements as they are.
constexpr bool has_pair_grid(const BlockRule& r) { return r.alpha == 1 && r.grid.mantissa_bits <= 6; }

constexpr PairGrid pair_grid(const BlockRule& r) {
  const auto twice = [](float x) { return (bits_of(x) >> 16) * 0x10001u; };
  const float magic = power_of_two(7 - r.grid.mantissa_bits);
  const int below = 22 - r.grid.mantissa_bits;  // as round_stochastic()
  return {power_of_two(r.grid.min_exponent),
          r.grid.highest,
          twice(magic),
          twice(-magic),
          twice(float_of(~((1u << below) - 1))),
          r.rounding == Rounding::stochastic ? 1u << (below - r.sr_bits) : 0};
}

/// What to round a block with, for one element, from its largest magnitude. `covered` becomes false if the
/// definition needs other arithmetic: f32 has no room for the sums, or bf16 no normal numbers for the steps.
__device__ inline PairBlock pair_block(const BlockRule& r, const PairGrid& g, float amax, bool& covered) {
  const float scale = power_of_two_scale(r, amax).scale;
  const bool is_nan = scale != scale, is_zero = amax == 0 || amax < r.flush_below;
  const float least = is_nan || is_zero ? 1 : g.smallest * scale;
  covered = covered && least >= 0x1p-126f && least <= 0x1p100f && (amax <= 0x1p100f || is_nan);
  return {bits_of(least) >> 16, is_zero ? 0 : bits_of(g.highest * scale) >> 16};
}

inline constexpr std::uint32_t pair_signs = 0x80008000u;
inline constexpr std::uint32_t pair_exponents = 0x7f807f80u;

/// round_even().
__device__ inline std::uint32_t round_even(const PairGrid& g, const PairBlock& block, std::uint32_t x) {
  const std::uint32_t binade = pair_max(x & pair_exponents, block.least);
  const std::uint32_t sum = pair_fma(g.magic, binade, x & ~pair_signs);
  return pair_with_signs(pair_min(pair_fma(g.minus_magic, binade, sum), block.limit), x);
}

/// round_stochastic().
__device__ inline std::uint32_t round_stochastic(const PairGrid& g, const PairBlock& block, std::uint32_t x,
                                                 const DrawPair& draws) {
  constexpr std::uint32_t minus_two = 0xc000c000u;
  const std::uint32_t binade = pair_max(x & pair_exponents, block.least);
  const std::uint32_t low = bits_of(fmaf(2.0f, low_of(binade), fabsf(low_of(x)))),
                      high = bits_of(fmaf(2.0f, high_of(binade), fabsf(high_of(x))));
  const std::uint32_t sum =
      high_halves(low + draws.low * g.draw_unit, high + draws.high * g.draw_unit) & g.kept;
  return pair_with_signs(pair_min(pair_fma(minus_two, binade, sum), block.limit), x);
}

}  // namespace mxtape::cuda
