#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/block.h"
#include "tests/formats/grid_by_hand.h"
#include "tests/support/for_all.h"

namespace mxtape {
namespace {

using namespace test;

/// Every number of the format, every midpoint of neighbours, beyond the largest, each with its two float
/// neighbours, both signs.
std::vector<float> telling_points(const ElementFormat& f) {
  const auto grid = magnitudes(f);
  std::vector<float> points{0.0f, 1e-30f, 1e30f, 0x1p-149f, 3.4e38f};
  const auto with_neighbours = [&](double v) {
    const auto x = float(v);
    points.insert(points.end(), {x, std::nextafter(x, 0.0f), std::nextafter(x, INFINITY)});
  };
  for (std::size_t i = 0; i < grid.size(); ++i) {
    with_neighbours(grid[i]);
    if (i + 1 < grid.size()) with_neighbours((grid[i] + grid[i + 1]) / 2);
  }
  with_neighbours(grid.back() + (grid.back() - grid[grid.size() - 2]) / 2);
  const std::size_t positive = points.size();
  for (std::size_t i = 0; i < positive; ++i) points.push_back(-points[i]);
  return points;
}

TEST(Round, EveryNumberMidpointAndNeighbourGoesWhereTheDefinitionSays) {
  for (const ElementFormat& f : small_formats())
    for (const NamedRounding& row : roundings)
      for (const float x : telling_points(f)) {
        if (row.value == Rounding::stochastic) continue;
        const float got = round_to(grid_of(f), row.correction, x);
        ASSERT_EQ(got, round_by_hand(f, row.value, x)) << f.name() << " round=" << row.name << " of " << x;
        ASSERT_EQ(std::signbit(got), std::signbit(x)) << f.name() << " of " << x;
      }
}

// Too many to list: numbers all over the grid, on it, between and next to its midpoints.
TEST(Round, NumbersOfManyDigitsGoWhereTheDefinitionSaysToo) {
  for (const char* name : {"e5m20", "e5m21", "e5m22", "int23", "int24", "e1m22"}) {
    const ElementFormat f = *parse_element(name);
    const Grid grid = grid_of(f);
    for (const NamedRounding& row : roundings) {
      if (row.value == Rounding::stochastic) continue;
      Random random(1);
      for (int i = 0; i < 2000; ++i) {
        const float wide = std::ldexp(float(random() >> 40), int(random() % 4) - 24) * f.max_finite();
        const float held = std::min(wide, f.max_finite());
        const double step = std::ldexp(1.0, quantum_exponent(grid, held)), steps = held / step,
                     below = std::floor(steps), rest = steps - below;
        const bool up = rest > 0.5
                            ? row.value != Rounding::zero
                            : rest == 0.5 && (row.value == Rounding::away ||
                                              (row.value == Rounding::even && std::fmod(below, 2) == 1));
        const auto want = float((below + up) * step);
        for (const float sign : {1.0f, -1.0f})
          ASSERT_EQ(round_to(grid, row.correction, sign * wide), sign * want)
              << name << " round=" << row.name << " of " << sign * wide;
        if (row.value == Rounding::even) {
          ASSERT_EQ(round_even(grid, -wide), -want) << name << " of " << wide;
        }
      }
    }
  }
}

TEST(Round, FormatsWithTheExponentsOfF32GoWhereTheDefinitionSaysToo) {
  for (const int mantissa_bits : {1, 2})
    for (const NamedRounding& row : roundings) {
      if (row.value == Rounding::stochastic) continue;
      Quantizer q = mx(float_format(8, mantissa_bits, Specials::ieee));
      q.rounding = row.value;
      for (const float x : telling_points(q.element))
        ASSERT_EQ(round_element(block_rule(q), x, 0), round_by_hand(q.element, row.value, x))
            << q.element.name() << " round=" << row.name << " of " << x;
    }
}

TEST(Round, RowsOfTheTableAreInTheOrderOfTheEnumerators) {
  for (std::size_t i = 0; i < roundings.size(); ++i) EXPECT_EQ(roundings[i].value, Rounding(i));
  for (std::size_t i = 0; i < scale_rules.size(); ++i) EXPECT_EQ(scale_rules[i].value, ScaleRule(i));
}

TEST(Round, TheFastNearestEvenIsTheGeneralOne) {
  for (const ElementFormat& f : small_formats()) {
    if (f.tie == TieRule::code) continue;  // round_even knows significands only
    for (const float x : telling_points(f))
      ASSERT_EQ(bits_of(round_even(grid_of(f), x)), bits_of(round_to(grid_of(f), {}, x)))
          << f.name() << " of " << x;
  }
}

TEST(Round, StochasticRoundsUpExactlyWhenTheFractionAndTheDrawReachOne) {
  for (const ElementFormat& f : small_formats()) {
    const auto grid = magnitudes(f);
    for (std::size_t i = 0; i + 1 < grid.size(); ++i)
      for (const double part : {0.0, 0.25, 0.3, 0.5, 0.999}) {
        const auto x = float(grid[i] + part * (grid[i + 1] - grid[i]));
        const double fraction = (double(x) - grid[i]) / (grid[i + 1] - grid[i]);
        for (std::uint32_t draw = 0; draw < 256; draw += 5) {
          const double want = fraction + draw / 256.0 >= 1 ? grid[i + 1] : grid[i];
          ASSERT_EQ(round_stochastic_exact(grid_of(f), x, draw, 8), want)
              << f.name() << " " << x << " " << draw;
        }
      }
  }
}

TEST(Round, TheFastStochasticRoundingIsTheExactOneForNumbersOfFewBits) {
  // |x| + 2^(e+1) is exact if x has no bit below 2^-(22 - m) of its step: 8 bits of significand down to 2^-14
  // of the smallest binade.
  for (const ElementFormat& f : small_formats()) {
    const auto grid = magnitudes(f);
    for_all(
        "fast == exact", 500,
        [&](Random& random) {
          const double span = grid.back() * 1.2;
          const auto wide = float(span * double(random() >> 40) * 0x1p-24);
          return std::pair(to_f32(to_bf16(wide)), std::uint32_t(random() & 0xffff));
        },
        [&](const auto& input) {
          const auto [x, draw] = input;
          if (x < grid[1] * 0x1p-7f) return true;
          return round_stochastic(grid_of(f), x, draw, 16) == round_stochastic_exact(grid_of(f), x, draw, 16);
        });
  }
}

TEST(Round, SixteenRandomBitsAreUnbiasedForBf16AndNearlySoForF32) {
  // The mean over all 2^16 draws: exact for inputs of 8 bits; for f32, 2^-17 for the bits that no draw
  // reaches plus half a unit of the addition, 2^-(23 - m), in steps of the grid.
  for (const ElementFormat& f : {e4m3, e3m2, e2m3, e2m1, int8}) {
    const auto grid = magnitudes(f);
    Random random(7);
    for (int k = 0; k < 20; ++k) {
      const auto x = float(double(random() >> 40) * 0x1p-24 * grid.back());
      for (const float v : {x, to_f32(to_bf16(x))}) {
        double sum = 0;
        for (std::uint32_t draw = 0; draw < 65536; ++draw) sum += round_stochastic(grid_of(f), v, draw, 16);
        const auto above = std::size_t(std::upper_bound(grid.begin(), grid.end(), v) - grid.begin());
        if (above == grid.size()) continue;
        const double step = grid[above] - grid[above - 1];
        const double allowed =
            v == x && v != to_f32(to_bf16(x)) ? 0x1p-16 + std::ldexp(1.0, f.mantissa_bits - 23) : 0;
        if (v < grid[1]) continue;
        EXPECT_LE(std::fabs(sum / 65536 - v), allowed * step) << f.name() << " of " << v;
      }
    }
  }
}

TEST(Round, Bf16CastsAreTheCoreConversionOfRandomFloats) {
  const BlockRule rule = block_rule(bf16_cast);
  for_all(
      "cast == to_bf16", 20000, [](Random& random) { return float_of(std::uint32_t(random())); },
      [&](float x) {
        const float got = round_element(rule, x, 0), want = to_f32(to_bf16(x));
        return std::isnan(x) ? std::isnan(got) : got == want;
      });
  EXPECT_EQ(round_element(rule, 3.4e38f, 0), INFINITY);
}

TEST(Round, PlainCastsOverflowToInfinityOrNaNAndOnlyFormatsWithoutThemSaturate) {
  const auto cast = [](const ElementFormat& f, float x) {
    return round_element(block_rule(plain_cast(f)), x, 0);
  };
  EXPECT_EQ(cast(e5m2, 61439.996f), 57344);
  EXPECT_EQ(cast(e5m2, 61440), INFINITY);
  EXPECT_EQ(cast(e5m2, -1e30f), -INFINITY);
  EXPECT_EQ(cast(e4m3, 464), 448);
  EXPECT_TRUE(std::isnan(cast(e4m3, 464.00003f)));
  EXPECT_EQ(cast(e2m1, 1e9f), 6);
  EXPECT_EQ(cast(f16, 65520), INFINITY);
}

}  // namespace
}  // namespace mxtape
