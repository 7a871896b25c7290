#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

constexpr double u = unit_roundoff;
constexpr std::int64_t odd_sizes[] = {1, 5, 16, 65, 50001};

/// Beyond |x| = 10 or so the exponentials end and slopes are 0 or 1: 2^-118 off at most, per unit of x or dy.
constexpr double end = 0x1p-118;

/// A value of a function and the error that f32 arithmetic may make.
struct Bounded {
  double value, bound;
};

// x sigma(z), z = 2 sqrt(2 / pi) x (1 + 0.044715 x^2): z has 7 roundings (constants among them), which e^-z
// turns into a relative error of 7 |z| u; e^-z itself has the device's; 1 + e and the product with x have one
// each, and the reciprocal its own.
struct TanhForm {
  double z, sigma, e_error;
  explicit TanhForm(double x)
      : z(2 * std::sqrt(2 / std::numbers::pi) * x * (1 + 0.044715 * x * x)), sigma(1 / (1 + std::exp(-z))) {
    e_error = (7 * std::abs(z) + elementary().exp) * u;
  }
};
Bounded tanh_value(double x) {
  const TanhForm f(x);
  const double y = x * f.sigma;
  return {y, std::abs(y) * ((1 - f.sigma) * f.e_error + (2 + elementary().reciprocal) * u)};
}
Bounded tanh_slope(double x) {
  const TanhForm f(x);
  const double growth = 2 * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  const double second = f.sigma * (1 - f.sigma) * x * growth;
  // The product of the second term has 10 more roundings and two reciprocals; the sum and the product with dy
  // one each.
  return {f.sigma + second, f.sigma * ((1 - f.sigma) * f.e_error + (2 + elementary().reciprocal) * u) +
                                std::abs(second) * (2 * f.e_error + (10 + 2 * elementary().reciprocal) * u) +
                                2 * u * std::abs(f.sigma + second)};
}

// x Phi(x): the density e^(-x^2 / 2) has the device's error and the rounding of x^2, amplified by x^2 / 2;
// the tail 8 ulp = 16 u: 6 ulp with a correctly rounded t (kernels/cpu/loops/simd_math.h), and 4 u if t = 1 /
// (1 + a x) has one u more, by which t s(t) grows 3.4 times at most, at x = 0.
struct ErfForm {
  double below, tail, density, density_error, below_error;
  explicit ErfForm(double x)
      : below(0.5 * std::erfc(-x / std::numbers::sqrt2)),
        tail(0.5 * std::erfc(std::abs(x) / std::numbers::sqrt2)),
        density(std::exp(-x * x / 2)) {
    density_error = ((1 + elementary().exp_argument) * x * x / 2 + elementary().exp) * u;
    below_error = tail * (density_error + 16 * u) + (x > 0 ? u * below : 0);
  }
};
Bounded erf_value(double x) {
  const ErfForm f(x);
  return {x * f.below, std::abs(x) * f.below_error + u * std::abs(x * f.below)};
}
Bounded erf_slope(double x) {
  const ErfForm f(x);
  const double second = x * f.density / std::sqrt(2 * std::numbers::pi);
  return {f.below + second, f.below_error + std::abs(second) * (f.density_error + 3 * u) +
                                2 * u * (std::abs(f.below) + std::abs(second))};
}

std::vector<float> gelu_inputs(std::int64_t n) {
  std::vector<float> x = normals(n, 3, 2.5f);  // to about |x| = 10
  x[0] = 0;
  return x;
}

std::vector<float> gelu(const std::vector<float>& x, Gelu form) {
  const Tensor in = upload(device(), {std::int64_t(x.size())}, x), y = device().empty(in.shape());
  device().run(call::Gelu{y, in, form});
  return download(device(), y);
}
std::vector<float> gelu_backward(const std::vector<float>& dy, const std::vector<float>& x, Gelu form) {
  const Tensor in = upload(device(), {std::int64_t(x.size())}, x),
               gradient = upload(device(), in.shape(), dy);
  device().run(call::GeluBackward{gradient, gradient, in, form});
  return download(device(), gradient);
}

TEST(Gelu, IsWithinItsRoundingErrors) {
  for (const Gelu form : {Gelu::tanh, Gelu::erf})
    for (const std::int64_t n : odd_sizes) {
      const std::vector<float> x = gelu_inputs(n);
      std::vector<double> want, bound;
      for (const float v : x) {
        const Bounded y = form == Gelu::tanh ? tanh_value(v) : erf_value(v);
        want.push_back(y.value), bound.push_back(y.bound + end * std::abs(v));
      }
      EXPECT_TRUE(within(gelu(x, form), want, bound)) << int(form) << " " << n;
    }
}

TEST(Gelu, TheTwoFormsAreToldApartByTheBound) {
  const std::vector<float> x{-2, -1, 1, 2};
  std::vector<double> want, bound;
  for (const float v : x) want.push_back(erf_value(v).value), bound.push_back(erf_value(v).bound);
  EXPECT_FALSE(within(gelu(x, Gelu::tanh), want, bound));
}

TEST(Gelu, BackwardIsTheDerivativeTimesDyInPlace) {
  for (const Gelu form : {Gelu::tanh, Gelu::erf})
    for (const std::int64_t n : odd_sizes) {
      const std::vector<float> x = gelu_inputs(n), dy = normals(n, 4);
      std::vector<double> want, bound;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Bounded slope = form == Gelu::tanh ? tanh_slope(x[i]) : erf_slope(x[i]);
        want.push_back(dy[i] * slope.value), bound.push_back(std::abs(dy[i]) * (slope.bound + end));
      }
      EXPECT_TRUE(within(gelu_backward(dy, x, form), want, bound)) << int(form) << " " << n;
    }
}

TEST(Gelu, LargeInputsEndAtZeroAndXAndNaNStays) {
  for (const Gelu form : {Gelu::tanh, Gelu::erf}) {
    const std::vector<float> x{-100, -1e10f, 100, 1e10f, NAN, INFINITY};
    const std::vector<float> y = gelu(x, form), dx = gelu_backward({1, 1, 1, 1, 1, 1}, x, form);
    EXPECT_EQ(y[0], 0) << int(form);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], 100);
    EXPECT_EQ(y[3], 1e10f);
    EXPECT_TRUE(std::isnan(y[4]) && std::isnan(dx[4]));
    EXPECT_EQ(y[5], INFINITY);
    EXPECT_NEAR(dx[0], 0, 0x1p-100);
    EXPECT_NEAR(dx[1], 0, 0x1p-100);
    EXPECT_EQ(dx[2], 1);
    EXPECT_EQ(dx[3], 1);
  }
}

TEST(Add, RoundsEachSumOnceAlsoInPlace) {
  for (const std::int64_t n : odd_sizes) {
    const std::vector<float> a = normals(n, 5), b = normals(n, 6);
    const Tensor y = upload(device(), {n}, a);
    device().run(call::Add{y, y, upload(device(), {n}, b)});
    const std::vector<float> got = download(device(), y);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(got[i], a[i] + b[i]);
  }
}

TEST(Dropout, FollowsItsDefinitionAlsoWhereItsDrawsBeginInTheMiddle) {
  for (const std::int64_t n : odd_sizes)
    for (const std::uint64_t first : {0u, 1u, 6u, 1023u}) {
      const DrawKey key{
          .seed = 11, .purpose = Purpose::dropout, .tensor_id = 7, .step = 2, .first_element = first};
      const std::vector<float> x = normals(n, 7);
      const Tensor y = upload(device(), {n}, x);
      device().run(call::Dropout{y, y, 0.3f, key});
      const std::vector<float> got = download(device(), y);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(got[i], key.uniform(i) >= 0.3f ? x[i] / (1 - 0.3f) : 0.0f)
            << i << " of " << n << ", " << first;
    }
}

TEST(Pointwise, TiersAndThreadCountsGiveTheSameBits) {
  const std::int64_t n = 50001;  // several ranges and a tail
  const std::vector<float> x = gelu_inputs(n), dy = normals(n, 8);
  expect_same_bits_everywhere([&] {
    std::vector<float> all;
    for (const Gelu form : {Gelu::tanh, Gelu::erf}) {
      append(all, gelu(x, form));
      append(all, gelu_backward(dy, x, form));
    }
    const Tensor y = upload(device(), {n}, x);
    device().run(call::Dropout{y, y, 0.1f, {.seed = 3, .first_element = 5}});
    return append(all, download(device(), y));
  });
}

}  // namespace
}  // namespace mxtape::test
