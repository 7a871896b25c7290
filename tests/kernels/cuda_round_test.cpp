#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/quantize/round.h"

namespace mxtape::cuda {
namespace {

const std::vector<ElementFormat> formats{e5m2,
                                         e4m3,
                                         e3m2,
                                         e2m3,
                                         e2m1,
                                         int8,
                                         int4,
                                         float_format(4, 1, Specials::none),
                                         float_format(7, 6, Specials::none)};

/// Numbers at and around everything where a rounding of `g` can change: all bf16 magnitudes, and each point
/// of the grid and middle between two of them with its neighbours in f32; both signs.
std::vector<float> inputs(const Grid& g) {
  std::vector<float> all;
  for (std::uint32_t upper = 0; upper < 0x7f80u; ++upper) all.push_back(float_of(upper << 16));
  for (int e = g.min_exponent - 2; e <= std::ilogb(g.highest) + 1; ++e)
    for (int half_steps = 0; half_steps < 4 << g.mantissa_bits; ++half_steps) {
      const float middle = std::ldexp(float(half_steps), e - g.mantissa_bits - 1);
      for (const float v : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)})
        all.push_back(v);
    }
  for (std::size_t i = 0, n = all.size(); i < n; ++i) all.push_back(-all[i]);
  all.push_back(INFINITY);
  return all;
}

BlockRule rule_of(const ElementFormat& element, Rounding rounding, int sr_bits = 16) {
  Quantizer q = mx(element);
  q.rounding = rounding;
  q.sr_bits = std::uint8_t(sr_bits);
  return block_rule(q);
}

TEST(CudaRound, FastNearestEvenIsTheDefinition) {
  for (const ElementFormat& format : formats) {
    const BlockRule rule = rule_of(format, Rounding::even);
    ASSERT_TRUE(has_fast_grid(rule)) << format.name();
    const FastGrid grid = fast_grid(rule);
    for (const float x : inputs(rule.grid))
      ASSERT_EQ(bits_of(round_even_fast(grid, x)), bits_of(round_even(rule.grid, x)))
          << format.name() << " " << x;
  }
}

TEST(CudaRound, FastStochasticRoundingIsTheDefinitionForExtremeAndOtherDraws) {
  for (const ElementFormat& format : formats)
    for (const int bits : {8, 11, 16}) {
      const BlockRule rule = rule_of(format, Rounding::stochastic, bits);
      ASSERT_TRUE(has_fast_grid(rule)) << format.name();
      const FastGrid grid = fast_grid(rule);
      std::uint32_t draw = 1;
      for (const float x : inputs(rule.grid))
        for (int i = 0; i < 8; ++i) {
          draw = i == 0 ? 0 : i == 1 ? 0xffffu : draw * 0x915f77f5u + 1;
          const std::uint32_t low = (i == 1 ? 0xffffu : draw >> 16) >> (16 - bits);
          ASSERT_EQ(bits_of(round_stochastic_fast(grid, x, low)),
                    bits_of(round_stochastic(rule.grid, x, low, bits)))
              << format.name() << " " << x << " draw " << low;
        }
    }
}

TEST(CudaRound, GridsThatAreNotSymmetricOrNeedOtherRulesAreNotFast) {
  Quantizer full = mxint8;
  full.element.full_range = true;
  EXPECT_FALSE(has_fast_grid(block_rule(full)));
  EXPECT_FALSE(has_fast_grid(rule_of(e2m1, Rounding::away)));
  EXPECT_FALSE(has_fast_grid(rule_of(e2m1, Rounding::stochastic, 20)));
  EXPECT_FALSE(has_fast_grid(block_rule(plain_cast(e4m3))));
}

}  // namespace
}  // namespace mxtape::cuda
