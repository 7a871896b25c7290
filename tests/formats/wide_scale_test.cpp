// Power-of-two scales of more than 8 exponent bits, against their formula in double: exponents of f32's
// blocks are never clamped.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/codec/mx_tensor.h"
#include "formats/statistics.h"
#include "tests/formats/grid_by_hand.h"
#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

constexpr std::int64_t along = 32;

/// A block of any magnitude that f32 has.
std::vector<float> any_block(Random& random) {
  auto x = random_values(random, along);
  const auto exponent = int(integer_in(random, -145, 121));
  for (float& v : x) v = std::ldexp(v, exponent);
  return x;
}

std::vector<float> rounded(const std::vector<float>& x, const Quantizer& q) {
  std::vector<float> y(x.size());
  quantize_reference(y.data(), x.data(), 1, std::int64_t(x.size()), Axis::row, q, {});
  return y;
}

struct Wide {
  Quantizer q;
  std::vector<float> x;
};
Wide any_wide(Random& random) {
  const ElementFormat elements[] = {e4m3, e5m2, e2m3, e2m1, e3m0, int8, int4, *parse_element("e7m3")};
  Quantizer q = mx(elements[integer_in(random, 0, std::ssize(elements) - 1)]);
  q.scale_bits = std::uint8_t(integer_in(random, 9, 11));
  return {q, any_block(random)};
}

int exponent_of_scale(const Wide& w) {
  double amax = 0;
  for (const float v : w.x) amax = std::max(amax, std::fabs(double(v)));
  return amax > 0 ? std::ilogb(amax) - w.q.element.emax : -127;
}

TEST(WideScale, NumbersAreThoseOfTheFormulaAtEveryMagnitude) {
  int beyond = 0;
  for_all("Q(x 2^-E) 2^E", 5000, any_wide, [&](const Wide& w) {
    const int e = exponent_of_scale(w);
    beyond += e < -127;
    const auto got = rounded(w.x, w.q);
    for (std::size_t i = 0; i < w.x.size(); ++i) {
      const double scaled = std::ldexp(double(w.x[i]), -e);
      EXPECT_EQ(double(float(scaled)), scaled) << "the oracle takes an f32";
      const auto want = float(std::ldexp(round_by_hand(w.q.element, Rounding::even, float(scaled)), e));
      if (bits_of(got[i]) != bits_of(want)) return false;
    }
    return true;
  });
  EXPECT_GT(beyond, 500) << "blocks that e8m0 clamps";
}

TEST(WideScale, WithoutAClampTheNumbersAreThoseOfE8m0) {
  int clamped = 0;
  for_all("e10m0 is e8m0", 2000, any_wide, [&](const Wide& w) {
    Quantizer narrow = w.q;
    narrow.scale_bits = 8;
    const bool same = rounded(w.x, w.q) == rounded(w.x, narrow);
    if (exponent_of_scale(w) >= -127) return same;
    clamped += !same;
    return true;
  });
  EXPECT_GT(clamped, 50);
}

TEST(WideScale, AScaleIsStoredInTwoBytesAndCountedByItsBits) {
  for_all("unpack(pack(x)) == Q(x)", 1000, any_wide, [](const Wide& w) {
    const MxTensor t = pack(w.x.data(), 1, along, Axis::row, w.q, {});
    std::vector<float> y(w.x.size());
    unpack(y.data(), t);
    const int bias = (1 << (w.q.scale_bits - 1)) - 1;
    return t.scales.size() == 2 && (t.scales[0] | t.scales[1] << 8) == exponent_of_scale(w) + bias &&
           y == rounded(w.x, w.q) && w.q.bits_per_element() == w.q.element.bits() + w.q.scale_bits / 32.0;
  });
  std::vector<float> x(along, 1);
  x[3] = NAN;
  const Quantizer q = parse_quantizer("e4m3 scale=e10m0");
  const MxTensor t = pack(x.data(), 1, along, Axis::row, q, {});
  EXPECT_EQ(t.scales, (std::vector<std::uint8_t>{0xff, 0x03}));
  unpack(x.data(), t);
  EXPECT_TRUE(std::isnan(x[0]));
}

TEST(WideScale, StatisticsCountScalesByTheirExponent) {
  const std::vector<float> x(along, 0x1p-149f);
  const auto s =
      error_statistics(x.data(), 1, along, Axis::row, parse_quantizer("e4m3 scale=e10m0"), DrawKey{});
  EXPECT_EQ(s.scales, (std::map<int, std::int64_t>{{-157, 1}}));
  EXPECT_EQ(s.mse, 0);
  EXPECT_EQ(s.clipped, 0);
  EXPECT_EQ(s.blocks, 1);
  EXPECT_EQ(s.bytes, along + 2);
}

}  // namespace
}  // namespace mxtape
