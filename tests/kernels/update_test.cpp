#include <gtest/gtest.h>

#include <cmath>

#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/rounded.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

struct Clip {
  float norm, factor;
};
Clip clip(const std::vector<Tensor>& gradients, float max_norm) {
  const Tensor norm = device().empty({1}), factor = device().empty({1});
  device().run(call::ClipFactor{norm, factor, gradients, max_norm});
  return {download(device(), norm)[0], download(device(), factor)[0]};
}

TEST(ClipFactor, TheNormIsTheRootOfAllSquaresRoundedOnce) {
  double squares = 0;
  std::vector<Tensor> gradients;
  for (const std::int64_t n : {1, 5, 16, 65, 40000}) {
    const std::vector<float> g = normals(n, unsigned(n));
    for (const float v : g) squares += double(v) * v;
    gradients.push_back(upload(device(), {n}, g));
  }
  const double norm = std::sqrt(squares);
  const Clip got = clip(gradients, 1.5f);
  // Sums and root are in double; what is left is the rounding to f32, and the quotient's.
  EXPECT_NEAR(got.norm, norm, 1.001 * unit_roundoff * norm);
  EXPECT_NEAR(got.factor, 1.5 / norm, 2.001 * unit_roundoff * 1.5 / norm);
}

std::vector<double> squares_of(const std::vector<float>& x, std::int64_t unit) {
  const std::int64_t n = std::int64_t(x.size());
  const Tensor sums = device().empty({(n + unit - 1) / unit}, DType::f64);
  device().run(call::Squares{sums, upload(device(), {n}, x), unit});
  std::vector<double> values(std::size_t(sums.count()));
  device().download(values.data(), sums);
  return values;
}

TEST(Squares, OfEachUnitAreThoseOfItsElementsAlone) {
  const std::vector<float> x = normals(100 * 96 + 32, 5);
  const auto all = squares_of(x, 96);
  ASSERT_EQ(all.size(), 101u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<float> unit(
        x.begin() + std::int64_t(i) * 96,
        x.begin() + std::min<std::int64_t>(std::int64_t(i + 1) * 96, std::ssize(x)));
    double sum = 0;
    for (const float v : unit) sum += double(v) * v;
    // All terms are positive: n roundings of double at most.
    EXPECT_NEAR(all[i], sum, 2 * 96 * 0x1p-53 * sum);
    EXPECT_EQ(all[i], squares_of(unit, 96).front()) << "depends on its neighbours";
  }
}

TEST(ClipFactor, TakesSumsOfSquaresInsteadOfGradients) {
  const std::vector<float> x = normals(5000, 6);
  const Tensor norm = device().empty({1}), factor = device().empty({1}),
               sums = device().empty({79}, DType::f64);
  const Tensor gradient = upload(device(), {5000}, x);
  device().run(call::Squares{sums, gradient, 64});
  device().run(call::ClipFactor{norm, factor, {}, 2, sums});
  const Clip want = clip({gradient}, 2);
  EXPECT_NEAR(download(device(), norm)[0], want.norm, 2.001 * unit_roundoff * double(want.norm));
  EXPECT_NEAR(download(device(), factor)[0], want.factor, 4.001 * unit_roundoff * double(want.factor));
}

TEST(ClipFactor, IsOneBelowTheLimitAndWithoutOne) {
  const std::vector<Tensor> gradients{upload<float>(device(), {2}, {3, 4})};
  EXPECT_EQ(clip(gradients, 5).norm, 5);
  EXPECT_EQ(clip(gradients, 5).factor, 1);
  EXPECT_EQ(clip(gradients, 6).factor, 1);
  EXPECT_EQ(clip(gradients, 0).factor, 1);
  EXPECT_EQ(clip(gradients, 2.5f).factor, 0.5f);
  EXPECT_EQ(clip({}, 1).norm, 0);
  EXPECT_EQ(clip({}, 1).factor, 1);
}

TEST(ClipFactor, LargeGradientsDoNotOverflowTheirSquares) {
  EXPECT_EQ(clip({upload<float>(device(), {2}, {3e30f, 4e30f})}, 0).norm, 5e30f);
}

TEST(ClipFactor, ANumberThatIsNotFiniteShowsInNormAndFactor) {
  for (const float bad : {NAN, INFINITY, -INFINITY})
    for (const std::size_t where : {0, 20, 69}) {
      std::vector<float> g = normals(70, 1);
      g[where] = bad;
      for (const float limit : {0.0f, 1.0f}) {
        const Clip got = clip({upload<float>(device(), {1}, {1}), upload(device(), {70}, g)}, limit);
        EXPECT_FALSE(std::isfinite(got.norm)) << bad;
        EXPECT_TRUE(std::isnan(got.factor)) << bad << ": a factor of 0 would hide it";
      }
    }
}

const AdamWStep step{.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f};
constexpr float learning_rate = 1e-2f, correction1 = 1 - 0.9f * 0.9f, correction2 = 1 - 0.99f * 0.99f;

struct Adam {
  std::vector<float> p, m, v, g;
  explicit Adam(std::int64_t n)
      : p(normals(n, 1)), m(normals(n, 2, 0.1f)), v(normals(n, 3, 0.1f)), g(normals(n, 4)) {
    for (float& x : v) x *= x;
  }
  Adam after(float clip) const { return after(clip, {std::int64_t(p.size())}, {}); }
  Adam after(float clip, Shape shape, std::span<Rounded> copies) const {
    const Tensor tp = upload(device(), shape, p), tm = upload(device(), shape, m),
                 tv = upload(device(), shape, v);
    device().run(call::AdamW{tp, tm, tv, upload(device(), shape, g), upload<float>(device(), {1}, {clip}),
                             upload<float>(device(), {3}, {learning_rate, correction1, correction2}), step,
                             copies});
    Adam next(*this);
    next.p = download(device(), tp), next.m = download(device(), tm), next.v = download(device(), tv);
    return next;
  }
};

TEST(AdamW, FollowsAlgorithm2WithinItsRoundingErrors) {
  for (const std::int64_t n : {1, 5, 16, 65, 40000}) {
    const Adam before(n), after = before.after(0.7f);
    std::vector<double> m, m_bound, v, v_bound, p, p_bound, p_without_decay;
    for (std::size_t i = 0; i < before.p.size(); ++i) {
      const double g = double(before.g[i]) * double(0.7f);
      const double old_m = double(step.beta1) * before.m[i], new_m = (1 - double(step.beta1)) * g;
      m.push_back(old_m + new_m);
      // Roundings: 1 - beta, g, two products, the sum.
      m_bound.push_back(gamma(4) * (std::abs(old_m) + std::abs(new_m)));
      v.push_back(double(step.beta2) * before.v[i] + (1 - double(step.beta2)) * g * g);
      v_bound.push_back(gamma(6) * v.back());
      const double denominator = std::sqrt(v.back() / correction2) + step.eps;
      const double update = double(learning_rate) / correction1 / denominator;
      const double decay = double(learning_rate) * step.weight_decay * before.p[i];
      p.push_back(before.p[i] - update * m.back() - decay);
      p_without_decay.push_back(p.back() + decay);
      // Of the quotient: rate, its product, half of v's error, root, its factor (3), product, eps, quotient.
      p_bound.push_back(gamma(12) * std::abs(update * m.back()) + update * m_bound.back() +
                        gamma(4) * std::abs(decay) +
                        2 * unit_roundoff * (std::abs(p.back()) + std::abs(before.p[i])));
    }
    EXPECT_TRUE(within(after.m, m, m_bound)) << n;
    EXPECT_TRUE(within(after.v, v, v_bound)) << n;
    EXPECT_TRUE(within(after.p, p, p_bound)) << n;
    EXPECT_FALSE(within(after.p, p_without_decay, p_bound)) << n;
  }
}

TEST(AdamW, ANaNGradientReachesTheParameter) {
  Adam before(20);
  before.g[17] = NAN;
  const Adam after = before.after(1);
  EXPECT_TRUE(std::isnan(after.p[17]) && std::isnan(after.m[17]) && std::isnan(after.v[17]));
  EXPECT_TRUE(std::isfinite(after.p[16]));
}

TEST(AdamW, ANaNFactorLeavesEverythingAsItIs) {
  const Adam before(40), after = before.after(NAN);
  EXPECT_EQ(after.p, before.p);
  EXPECT_EQ(after.m, before.m);
  EXPECT_EQ(after.v, before.v);
}

std::vector<float> numbers_of(const std::vector<Rounded>& copies) {
  std::vector<float> all;
  for (const Rounded& copy : copies) {
    append(all, download(device(), copy.elements));
    if (copy.multiplier) append(all, download(device(), copy.multiplier));
  }
  return all;
}

/// Formats of the copies along rows and along columns, empty: none; what a device does in one pass and what
/// it does in two.
struct Formats {
  std::string along_rows, along_columns;
  int rotation = 0;  // of the copy along rows
};

void expect_what_quantize_makes_of_the_new_parameter(const Formats& formats, Shape shape) {
  const DrawKey draws{.seed = 5, .tensor_id = 3, .step = 4};
  const auto new_copies = [&] {
    std::vector<Rounded> copies;
    if (!formats.along_rows.empty())
      copies.push_back(room_for(device(), parse_quantizer(formats.along_rows), Axis::row, shape));
    if (!formats.along_columns.empty())
      copies.push_back(room_for(device(), parse_quantizer(formats.along_columns), Axis::column, shape));
    copies[0].by.rotation = {formats.rotation, SignsPer::run};
    copies[0].by.signs = {.seed = 5, .purpose = Purpose::hadamard_signs};
    for (Rounded& copy : copies) copy.by.draws = draws;
    return copies;
  };
  const Adam before(shape.count()), want = before.after(0.7f);
  std::vector<Rounded> quantized = new_copies(), renewed = new_copies();
  quantize(device(), quantized, upload(device(), shape, want.p), draws);
  const Adam got = before.after(0.7f, shape, renewed);
  const auto where = formats.along_rows + ", " + formats.along_columns + " " + shape.text();
  EXPECT_TRUE(got.p == want.p) << where;
  EXPECT_TRUE(got.m == want.m) << where;
  EXPECT_TRUE(got.v == want.v) << where;
  EXPECT_TRUE(numbers_of(renewed) == numbers_of(quantized)) << where;
}

TEST(AdamW, MakesTheCopiesThatQuantizeMakesOfTheNewParameter) {
  const Formats cases[] = {
      {"mxfp4", "mxfp4"},
      {"mxfp4", "mxfp6_e2m3"},
      {"mxfp8_e4m3 round=stochastic", "mxfp8_e4m3 round=stochastic"},
      {"mxfp4 block=32x32", ""},
      {"", "mxint8"},
      {"mxfp4 alpha=0.75 round=stochastic", "mxfp4 alpha=0.75 round=stochastic"},
      {"bf16", ""},
      {"bf16", "mxfp4"},
      {"nvfp4", "nvfp4"},
      {"mxfp4", "mxfp4", 16},
      {"mxfp4 round=stochastic", "mxfp4"},
      {"mxint8 round=away", "mxint8 round=away"},
  };
  for (const Formats& formats : cases)
    for (const Shape shape : {Shape{64, 96}, {33, 40}, {1, 7}, {70, 31}, {40, 304}})
      if (!formats.rotation || shape[1] % formats.rotation == 0)
        expect_what_quantize_makes_of_the_new_parameter(formats, shape);
}

TEST(AdamW, MakesCopiesOfMoreRowsThanAGridHolds) {
  expect_what_quantize_makes_of_the_new_parameter({"mxfp4", "mxfp4"}, {4096 * 32 + 33, 1});
}

TEST(AdamW, ANaNFactorLeavesEverythingAsItIsWithCopiesToo) {
  const Adam before(40 * 32);
  std::vector<Rounded> copies{room_for(device(), mxfp4, Axis::row, {40, 32}),
                              room_for(device(), mxfp4, Axis::column, {40, 32})};
  const Adam after = before.after(NAN, {40, 32}, copies);
  EXPECT_EQ(after.p, before.p);
  EXPECT_EQ(after.m, before.m);
  EXPECT_EQ(after.v, before.v);
}

TEST(Update, TiersAndThreadCountsGiveTheSameBits) {
  const Adam before(40001);
  expect_same_bits_everywhere([&] {
    const Clip c = clip({upload(device(), {40001}, before.g), upload(device(), {40001}, before.p)}, 1);
    const Adam after = before.after(c.factor);
    std::vector<float> all{c.norm, c.factor};
    append(all, after.p);
    append(all, after.m);
    return append(all, after.v);
  });
}

}  // namespace
}  // namespace mxtape::test
