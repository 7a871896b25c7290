// The functions as the baseline tier has them; pointwise_test.cpp shows that the other tiers give the same
// bits.
#define MXT_TIER baseline
#include "kernels/cpu/loops/simd_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mxtape::cpu::baseline {
namespace {

double ulp_at(double x) { return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23); }

/// The largest error in ulp of f against `exact` over the floats of [0, top], and their negatives down to
/// `bottom`, every `stride`-th of them.
template <class F, class Exact>
double worst_error(float bottom, float top, const F& f, const Exact& exact) {
  constexpr std::uint32_t stride = 4001;  // odd and prime: all low bits occur
  double worst = 0;
  for (std::uint32_t u = 0;; u += lanes * stride) {
    float x[lanes], y[lanes];
    for (int i = 0; i < lanes; ++i) {
      const std::uint32_t word = u + std::uint32_t(i) * stride;
      std::memcpy(&x[i], &word, sizeof word);
    }
    if (x[0] > std::max(top, -bottom)) return worst;
    for (const float sign : {1.0f, -1.0f}) {
      float held[lanes];
      for (int i = 0; i < lanes; ++i) held[i] = std::clamp(sign * x[i], bottom, top);
      store(y, f(load(held)));
      for (int i = 0; i < lanes; ++i) {
        const double want = exact(double(held[i]));
        worst = std::max(worst, std::abs(double(y[i]) - want) / ulp_at(want));
      }
    }
  }
}

TEST(SimdMath, ExpIsWithinOneUlp) {
  const double error = worst_error(
      -87.3f, 88.3f, [](const f32x16& x) { return exp(x); }, [](double x) { return std::exp(x); });
  EXPECT_LE(error, 1);
  EXPECT_GT(error, 0.5)
      << "no f32 function in several operations rounds correctly everywhere: is this measured?";
}

TEST(SimdMath, Exp2IsWithinOneUlp) {
  EXPECT_LE(
      worst_error(
          -126.0f, 127.4f, [](const f32x16& x) { return exp2(x); }, [](double x) { return std::exp2(x); }),
      1);
}

TEST(SimdMath, NormalTailIsWithinEightUlpOfItsDensity) {
  // From x = 13 on the density is near the end of the normal numbers, where an ulp is no longer relative.
  const auto density = [](double x) { return float(std::exp(-x * x / 2)); };
  const auto tail = [&](const f32x16& x) {
    float in[lanes], d[lanes];
    store(in, x);
    for (int i = 0; i < lanes; ++i) d[i] = density(in[i]);
    return normal_tail(x, load(d));
  };
  const auto exact = [&](double x) {
    return 0.5 * std::erfc(x / std::sqrt(2.0)) / std::exp(-x * x / 2) * double(density(x));
  };
  EXPECT_LE(worst_error(0.0f, 12.0f, tail, exact), 8);
}

TEST(SimdMath, RangesEndInZeroAndInfinityAndNaNPasses) {
  const auto first = [](const f32x16& v) {
    float s[lanes];
    store(s, v);
    return s[0];
  };
  for (const float x : {-87.4f, -1e30f, -INFINITY}) EXPECT_EQ(first(exp(all(x))), 0.0f) << x;
  for (const float x : {88.4f, 1e30f, INFINITY}) EXPECT_EQ(first(exp(all(x))), INFINITY) << x;
  for (const float x : {-126.5f, -1e30f, -INFINITY}) EXPECT_EQ(first(exp2(all(x))), 0.0f) << x;
  for (const float x : {127.5f, 1e30f, INFINITY}) EXPECT_EQ(first(exp2(all(x))), INFINITY) << x;
  EXPECT_TRUE(std::isnan(first(exp(all(NAN)))) && std::isnan(first(exp2(all(NAN)))));
  EXPECT_EQ(first(exp(all(0))), 1.0f);
}

}  // namespace
}  // namespace mxtape::cpu::baseline
