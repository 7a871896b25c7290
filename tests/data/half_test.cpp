#include "data/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mxtape {
namespace {

/// Sign, exponent and fraction by the formula of IEEE 754.
double by_formula(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

TEST(Half, EveryNumberIsWhatTheFormulaGivesAndRoundsToItself) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = f32_of_half(std::uint16_t(bits));
    const double want = by_formula(std::uint16_t(bits));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(x)) << bits;
      EXPECT_FALSE(half_of_f32(x).has_value());
      continue;
    }
    ASSERT_EQ(double(x), want) << bits;
    ASSERT_EQ(std::signbit(x), (bits & 0x8000) != 0) << bits;
    if (std::isfinite(x)) {
      ASSERT_EQ(half_of_f32(x), std::optional(std::uint16_t(bits)));
    }
  }
}

TEST(Half, BetweenTwoNumbersTheNearerOneIsTakenAndTheEvenOneInTheMiddle) {
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = std::uint16_t(low + 1);
    const float middle = float((double(f32_of_half(low)) + double(f32_of_half(high))) / 2);  // exact: 12 bits
    EXPECT_EQ(half_of_f32(middle), std::optional(low & 1 ? high : low)) << low;
    EXPECT_EQ(half_of_f32(std::nextafterf(middle, 0)), std::optional(low)) << low;
    EXPECT_EQ(half_of_f32(std::nextafterf(middle, 1e9f)), std::optional(high)) << low;
    EXPECT_EQ(half_of_f32(-middle), std::optional(std::uint16_t(0x8000 | (low & 1 ? high : low)))) << low;
  }
}

TEST(Half, WhatIsBeyondTheLargestNumberHasNone) {
  EXPECT_EQ(half_of_f32(65504), std::optional<std::uint16_t>(0x7bff));
  EXPECT_EQ(half_of_f32(std::nextafterf(65520, 0)), std::optional<std::uint16_t>(0x7bff));
  for (const float x : {65520.f, 1e9f, -65520.f, std::numeric_limits<float>::infinity()})
    EXPECT_FALSE(half_of_f32(x).has_value()) << x;
}

}  // namespace
}  // namespace mxtape
