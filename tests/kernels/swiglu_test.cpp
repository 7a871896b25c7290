#include <gtest/gtest.h>

#include <cmath>

#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/reference_rows.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

constexpr double u = unit_roundoff;
constexpr std::int64_t widths[] = {1, 5, 16, 24, 65, 384, 2049, 4096};

/// Beyond |a| = 87 exponentials end: 2^-118 off at most, per unit of |a b| or |dy|.
constexpr double end = 0x1p-118;

// s = 1 / (1 + e) with e = 2^(-a log2 e): the constant and the product are rounded, which e turns into 2 |a|
// u; e itself has the device's error; 1 + e has one rounding and the reciprocal its own.
struct Sigma {
  double s, rest;         // s, 1 - s
  double error, of_rest;  // relative
  explicit Sigma(double a) : s(1 / (1 + std::exp(-a))), rest(1 / (1 + std::exp(a))) {
    const double of_e = (2 * std::abs(a) + elementary().exp) * u;
    error = rest * of_e + (1 + elementary().reciprocal) * u;
    of_rest = of_e + error + u;  // as the product e s
  }
};

struct Case {
  std::int64_t rows, F;
  std::vector<float> x, dy;
  Case(std::int64_t rows, std::int64_t F)
      : rows(rows), F(F), x(normals(rows * 2 * F, 1, 3)), dy(normals(rows * F, 2)) {}
  std::size_t a(std::size_t i) const { return i / std::size_t(F) * 2 * std::size_t(F) + i % std::size_t(F); }
  std::size_t b(std::size_t i) const { return a(i) + std::size_t(F); }

  Reference y() const {
    Reference want;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const Sigma sigma(x[a(i)]);
      const double y = double(x[a(i)]) * sigma.s * x[b(i)];
      want.push(y, std::abs(y) * (sigma.error + 3 * u) + end * std::abs(double(x[a(i)]) * x[b(i)]));
    }
    return want;
  }
  Reference dx() const {
    Reference want;
    want.value.resize(x.size()), want.bound.resize(x.size());
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const double a_i = x[a(i)], b_i = x[b(i)];
      const Sigma sigma(a_i);
      const double t = a_i * sigma.rest, slope = sigma.s * (1 + t);
      // 1 + t: t has its product's rounding too, and the sum one. Then the product with s, with b and dy.
      const double of_slope = sigma.s * (std::abs(t) * (sigma.of_rest + u) + u * std::abs(1 + t)) +
                              std::abs(slope) * (sigma.error + 4 * u);
      want.value[a(i)] = dy[i] * b_i * slope;
      want.bound[a(i)] = std::abs(dy[i] * b_i) * (of_slope + end);
      want.value[b(i)] = dy[i] * a_i * sigma.s;
      want.bound[b(i)] = std::abs(want.value[b(i)]) * (sigma.error + 3 * u) + end * std::abs(dy[i] * a_i);
    }
    return want;
  }
};

std::vector<float> swiglu(const Case& c) {
  const Tensor x = upload(device(), {c.rows, 2 * c.F}, c.x), y = device().empty({c.rows, c.F});
  device().run(call::Swiglu{y, x});
  return download(device(), y);
}
std::vector<float> backward(const Case& c, bool in_place) {
  const Tensor x = upload(device(), {c.rows, 2 * c.F}, c.x), dy = upload(device(), {c.rows, c.F}, c.dy),
               dx = in_place ? x : device().empty(x.shape());
  device().run(call::SwigluBackward{dx, dy, x});
  return download(device(), dx);
}

TEST(Swiglu, IsWithinItsRoundingErrors) {
  for (const std::int64_t F : widths)
    for (const std::int64_t rows : {1, 7}) {
      const Case c(rows, F);
      const Reference y = c.y();
      EXPECT_TRUE(within(swiglu(c), y.value, y.bound)) << rows << " " << F;
    }
}

TEST(Swiglu, BackwardIsTheDerivativeTimesDyAlsoInPlace) {
  for (const std::int64_t F : widths)
    for (const std::int64_t rows : {1, 7}) {
      const Case c(rows, F);
      const Reference dx = c.dx();
      const std::vector<float> got = backward(c, false);
      EXPECT_TRUE(within(got, dx.value, dx.bound)) << rows << " " << F;
      EXPECT_EQ(backward(c, true), got);
    }
}

TEST(Swiglu, TheBoundsTellTheGateFromTheOtherHalf) {
  const Case c(7, 65);
  Case swapped = c;
  for (std::size_t i = 0; i < c.dy.size(); ++i) std::swap(swapped.x[c.a(i)], swapped.x[c.b(i)]);
  const Reference y = c.y(), dx = c.dx();
  EXPECT_FALSE(within(swiglu(swapped), y.value, y.bound));
  EXPECT_FALSE(within(backward(swapped, false), dx.value, dx.bound));
}

TEST(Swiglu, LargeGatesEndAtZeroAndAAndNaNStaysInItsElement) {
  Case c(1, 6);
  c.x = {-100, -1e10f, 100, 1e10f, NAN, 0, 2, 2, 2, 2, 2, 2};
  c.dy = {1, 1, 1, 1, 1, 1};
  const std::vector<float> y = swiglu(c), dx = backward(c, false);
  EXPECT_NEAR(y[0], 0, 0x1p-100);
  EXPECT_NEAR(y[1], 0, 0x1p-80);
  EXPECT_EQ(y[2], 200);
  EXPECT_EQ(y[3], 2e10f);
  EXPECT_TRUE(std::isnan(y[4]) && std::isnan(dx[4]) && std::isnan(dx[10]));
  EXPECT_EQ(y[5], 0);
  EXPECT_NEAR(dx[0], 0, 0x1p-100);
  EXPECT_NEAR(dx[1], 0, 0x1p-100);
  EXPECT_EQ(dx[2], 2);
  EXPECT_EQ(dx[3], 2);
  EXPECT_EQ(dx[5], 1);
}

TEST(Swiglu, TiersAndThreadCountsGiveTheSameBits) {
  const Case c(50, 1001);
  expect_same_bits_everywhere([&] {
    std::vector<float> all = swiglu(c);
    return append(all, backward(c, true));
  });
}

}  // namespace
}  // namespace mxtape::test
