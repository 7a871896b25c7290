#include "formats/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

struct Sample {
  Quantizer q;
  std::int64_t rows, cols;
  Axis axis;
  std::vector<float> x;
};

/// A random quantizer with a power-of-two scale and a rounding that is a function of the value, on a tensor
/// of ragged blocks.
Sample deterministic_sample(Random& random) {
  Sample s;
  do s.q = random_quantizer(random);
  while (s.q.scale != ScaleKind::power_of_two || s.q.is_stochastic());
  s.q.scale_bits = 8;
  s.rows = integer_in(random, 1, 9);
  s.cols = integer_in(random, 1, 40);
  s.axis = random() % 2 ? Axis::row : Axis::column;
  s.x = random_values(random, s.rows * s.cols);
  return s;
}

std::vector<float> quantized(const Sample& s, const std::vector<float>& x, const DrawKey& key = {}) {
  std::vector<float> y(x.size());
  quantize_reference(y.data(), x.data(), s.rows, s.cols, s.axis, s.q, key);
  return y;
}
std::vector<float> times(std::vector<float> x, float factor) {
  for (float& v : x) v *= factor;
  return x;
}

constexpr int cases = 2000;

TEST(Quantize, IsIdempotentWhereTheScaleSurvives) {
  for_all(
      "Q(Q(x)) == Q(x)", cases,
      [](Random& random) {
        // Where the largest element leaves its binade the next scale is another one: so with rfloor, an emax
        // that is not the format's own, -2^k of a full range, and when `even` has rounded amax up but its
        // element goes down, and with rnearest. Alpha and offsets move all values.
        Sample s = deterministic_sample(random);
        s.q.alpha = 1;
        s.q.rounding = random() % 2 ? Rounding::even : Rounding::away;
        s.q.offset = Offset::none;
        s.q.ema = false, s.q.element.tie = TieRule::significand;  // which are for round=even
        s.q.statistic = Statistic::amax;  // the mean square and the search see rounded numbers
        s.q.search = s.q.absolute_error = false;
        s.q.element.full_range = false;
        if (s.q.rule == ScaleRule::rfloor || s.q.rule == ScaleRule::rnearest) s.q.rule = ScaleRule::floor;
        s.q.element.emax = std::int8_t(s.q.element.max_exponent());
        return s;
      },
      [](const Sample& s) {
        const auto once = quantized(s, s.x);
        return quantized(s, once) == once;
      });
}

TEST(Quantize, IsOdd) {
  for_all(
      "Q(-x) == -Q(x)", cases,
      [](Random& random) {
        Sample s = deterministic_sample(random);
        s.q.element.full_range = false;
        if (s.q.offset == Offset::zero_point) s.q.offset = Offset::none;
        return s;
      },
      [](const Sample& s) { return quantized(s, times(s.x, -1)) == times(quantized(s, s.x), -1); });
}

TEST(Quantize, CommutesWithPowersOfTwo) {
  for_all(
      "Q(8 x) == 8 Q(x)", cases,
      [](Random& random) {
        Sample s = deterministic_sample(random);
        s.q.offset = Offset::none;  // FP16 offsets are on a fixed range
        s.q.element.emax = std::max<std::int8_t>(s.q.element.emax, 0);
        return s;
      },
      [](const Sample& s) {
        if (s.q.element.exponent_bits == 8) return true;  // its scales are at the lower clamp
        return quantized(s, times(s.x, 8)) == times(quantized(s, s.x), 8);
      });
}

TEST(Quantize, BlocksDoNotSeeEachOther) {
  for_all(
      "changing one element changes its block only", cases,
      [](Random& random) {
        Sample s = deterministic_sample(random);
        s.q.block = {4, 1};
        s.axis = Axis::row;
        return std::pair(s, integer_in(random, 0, s.rows * s.cols - 1));
      },
      [](const auto& input) {
        const auto& [s, changed] = input;
        auto other = s.x;
        other[std::size_t(changed)] = other[std::size_t(changed)] * 3 + 1;
        const auto a = quantized(s, s.x), b = quantized(s, other);
        for (std::int64_t i = 0; i < s.rows * s.cols; ++i) {
          const bool same_block = i / s.cols == changed / s.cols && i % s.cols / 4 == changed % s.cols / 4;
          if (!same_block && a[std::size_t(i)] != b[std::size_t(i)]) return false;
        }
        return true;
      });
}

TEST(Quantize, CeilAndRceilDoNotSaturateOnRandomBlocks) {
  for_all(
      "every error is below a step of the top binade", cases,
      [](Random& random) {
        Sample s = deterministic_sample(random);
        s.q.rule = random() % 2 ? ScaleRule::ceil : ScaleRule::rceil;
        s.q.block = {0, 0};
        s.q.element = random() % 2 ? e2m1 : e4m3;
        s.q.alpha = 1;
        s.q.offset = Offset::none;
        s.q.statistic = Statistic::amax;
        s.q.search = s.q.absolute_error = false;
        s.q.flush_subnormals = false;
        return s;
      },
      [](const Sample& s) {
        float amax = 0;
        for (const float v : s.x) amax = std::max(amax, std::fabs(v));
        const auto y = quantized(s, s.x);
        // A saturated element would be off by more than half a step of the top binade (a whole one when
        // truncating), amax 2^-m at most.
        const float step = std::ldexp(amax, -s.q.element.mantissa_bits);
        for (std::size_t i = 0; i < y.size(); ++i)
          if (std::fabs(y[i] - s.x[i]) > step) return false;
        return true;
      });
}

TEST(Quantize, RowsOfATensorAreColumnsOfItsTranspose) {
  for_all("Q(x, rows) == Q(x^T, cols)^T", cases, deterministic_sample, [](const Sample& s) {
    Sample turned{s.q, s.cols, s.rows, s.axis == Axis::row ? Axis::column : Axis::row, s.x};
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c)
        turned.x[std::size_t(c * s.rows + r)] = s.x[std::size_t(r * s.cols + c)];
    const auto a = quantized(s, s.x), b = quantized(turned, turned.x);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c)
        if (a[std::size_t(r * s.cols + c)] != b[std::size_t(c * s.rows + r)]) return false;
    return true;
  });
}

TEST(Quantize, SquareTilesGiveTheSameCopyForBothAxes) {
  Sample s{parse_quantizer("mxfp4 block=4x4"), 10, 14, Axis::row, {}};
  Random random(3);
  s.x = random_values(random, 140);
  Sample down = s;
  down.axis = Axis::column;
  EXPECT_EQ(quantized(s, s.x), quantized(down, s.x));
}

// precision/fp8-tensor: a bf16 operand of code * 448, and the rest of amax / largest in the multiplier.
TEST(Quantize, AFloatScaleOfTheTensorLeavesItsF32ScaleToTheMultiplier) {
  for (const char* element : {"e4m3", "e5m2"}) {
    Random random(7);
    Sample s{parse_quantizer(fmt::format("{} block=tensor scale=e4m3", element)), 6, 50, Axis::row, {}};
    s.x = random_values(random, 300);
    EXPECT_EQ(s.q.operand_dtype(), DType::bf16);
    std::vector<float> y(s.x.size());
    const float multiplier =
        quantize_reference(y.data(), s.x.data(), s.rows, s.cols, s.axis, s.q, DrawKey{});
    float amax = 0;
    for (const float v : s.x) amax = std::max(amax, std::fabs(v));
    const float scale = amax / s.q.element.max_finite();
    EXPECT_NEAR(multiplier * 448 / scale, 1, 5 * 0x1p-24);  // five roundings
    const std::vector<float> codes = quantized({plain_cast(s.q.element), s.rows, s.cols, s.axis, {}},
                                               times(s.x, 1 / scale));
    EXPECT_EQ(times(codes, 448), y) << element;
  }
}

TEST(Quantize, BothAxisCopiesUseTheSameDrawsByTheElementsIndex) {
  // Whole-tensor blocks share one scale, so that only draws could differ.
  Sample s{parse_quantizer("mxfp4 block=tensor round=stochastic"), 9, 31, Axis::row, {}};
  Random random(5);
  s.x = random_values(random, 279);
  Sample down = s;
  down.axis = Axis::column;
  const DrawKey key{42, Purpose::rounding, 3, 17, 0};
  EXPECT_EQ(quantized(s, s.x, key), quantized(down, s.x, key));
  // A rank that holds the second half of the batch draws what one rank draws there.
  const DrawKey second{42, Purpose::rounding, 3, 17, 4 * 31};
  Sample part{
      parse_quantizer("mxfp4 block=1 round=stochastic"), 5, 31, Axis::row, {s.x.begin() + 4 * 31, s.x.end()}};
  Sample whole = s;
  whole.q = part.q;
  const auto all = quantized(whole, s.x, key);
  EXPECT_EQ(quantized(part, part.x, second), (std::vector<float>{all.begin() + 4 * 31, all.end()}));
}

TEST(Quantize, InfinityOrNaNMakesItsBlockNaNAndNoOther) {
  for (const char* text : {"mxfp4", "mxfp8_e5m2 rule=even", "mxint8", "e2m1 scale=f32", "mxfp4 offset=fp16"})
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      Sample s{parse_quantizer(text), 1, 64, Axis::row, std::vector<float>(64, 1.0f)};
      s.x[5] = bad;
      const auto y = quantized(s, s.x);
      for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(y[i]), i < 32) << text << " element " << i;
    }
  Sample nv{nvfp4, 1, 64, Axis::row, std::vector<float>(64, 1.0f)};
  nv.x[5] = NAN;  // here the tensor has one scale
  for (const float v : quantized(nv, nv.x)) EXPECT_TRUE(std::isnan(v));
}

TEST(Quantize, PlainCastsKeepInfinitiesOrMakeThemNaN) {
  for (const NamedRounding& rounding : roundings)
    for (const char* text : {"bf16", "f16", "e5m2", "e4m3"}) {
      Sample s{parse_quantizer(fmt::format("{} round={}", text, rounding.name)), 1, 3, Axis::row, {}};
      s.x = {INFINITY, -INFINITY, 1};
      const auto y = quantized(s, s.x);
      const bool keeps = s.q.element.specials == Specials::ieee;
      EXPECT_TRUE(keeps ? y[0] == INFINITY && y[1] == -INFINITY : std::isnan(y[0]) && std::isnan(y[1]))
          << text << " round=" << rounding.name << ": " << y[0] << " " << y[1];
      EXPECT_EQ(y[2], 1);
    }
}

TEST(Quantize, ZerosStayZerosWithTheirSign) {
  for (const char* text : {"mxfp4", "mxint8", "nvfp4", "e2m1 scale=f32", "bf16"}) {
    Sample s{parse_quantizer(text), 1, 33, Axis::row, std::vector<float>(33, 0.0f)};
    s.x[3] = -0.0f;
    const auto y = quantized(s, s.x);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(bits_of(y[i]), bits_of(s.x[i])) << text;
  }
}

TEST(Quantize, BlocksOfTinyNumbersAreFlushedOnlyIfAsked) {
  Sample s{mxfp8_e5m2, 1, 4, Axis::row, {0x1p-127f, 0x1p-130f, 0, -0x1p-128f}};
  EXPECT_EQ(quantized(s, s.x), s.x);
  s.q.flush_subnormals = true;
  EXPECT_EQ(quantized(s, s.x), std::vector<float>(4, 0.0f));
}

TEST(Quantize, TheMultiplierUndoesAlphaAndTheTensorScale) {
  Sample s{parse_quantizer("mxfp4 alpha=0.75"), 1, 4, Axis::row, {4, -2, 1, 0}};
  std::vector<float> y(4);
  const float multiplier = quantize_reference(y.data(), s.x.data(), 1, 4, Axis::row, s.q, {});
  EXPECT_EQ(y, (std::vector<float>{3, -1.5f, 1, 0}));  // 0.75 is a tie and goes to 1
  EXPECT_EQ(multiplier, 1 / 0.75f);
  const std::vector<float> x{2688, 6};
  EXPECT_EQ(quantize_reference(y.data(), x.data(), 1, 2, Axis::row, parse_quantizer("nvfp4 block=1"), {}), 1);
  EXPECT_EQ(y[0], 2688);
  EXPECT_EQ(y[1], 6);
}

TEST(Quantize, ContradictionsAreErrorsAndNotIgnored) {
  Quantizer q = nvfp4;
  q.offset = Offset::midpoint;
  float x = 1;
  EXPECT_ANY_THROW(quantize_reference(&x, &x, 1, 1, Axis::row, q, {}));
}

}  // namespace
}  // namespace mxtape
