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

constexpr std::int64_t widths[] = {1, 5, 16, 31, 65, 264, 384};

// --- layer norm

struct Norm {
  std::int64_t rows, C;
  std::vector<float> x, gain, bias, dy;
  Norm(std::int64_t rows, std::int64_t C)
      : rows(rows),
        C(C),
        x(normals(rows * C, 1, 3)),
        gain(normals(C, 2)),
        bias(normals(C, 3)),
        dy(normals(rows * C, 4)) {
    for (float& v : x) v += 2;
  }
};

struct NormOutput {
  std::vector<float> y, mean, rstd, dx, dgain, dbias;
};

NormOutput run(const Norm& n, bool with_bias = true, Write write = Write::overwrite) {
  const Shape shape{n.rows, n.C};
  const Tensor x = upload(device(), shape, n.x), gain = upload(device(), {n.C}, n.gain);
  const Tensor bias = with_bias ? upload(device(), {n.C}, n.bias) : Tensor{};
  const Tensor y = device().empty(shape), mean = device().empty({n.rows}), rstd = device().empty({n.rows});
  device().run(call::Norm{y, mean, rstd, x, gain, bias, 1e-5f});
  const Tensor dx = upload(device(), shape, n.dy);  // in place
  const Tensor dgain = upload(device(), {n.C}, n.gain),
               dbias = with_bias ? upload(device(), {n.C}, n.bias) : Tensor{};
  device().run(call::NormBackward{dx, dgain, dbias, dx, x, mean, rstd, gain, write});
  return {download(device(), y),     download(device(), mean),
          download(device(), rstd),  download(device(), dx),
          download(device(), dgain), with_bias ? download(device(), dbias) : std::vector<float>{}};
}

TEST(LayerNorm, ForwardIsWithinItsRoundingErrors) {
  for (const std::int64_t C : widths) {
    const Norm n(7, C);
    const NormOutput got = run(n);
    const Reference want = reference::layer_norm(n.x, n.gain, n.bias, 1e-5f);
    EXPECT_TRUE(within(got.y, want.value, want.bound)) << C;
    EXPECT_TRUE(within(run(n, false).y, reference::layer_norm(n.x, n.gain, {}, 1e-5f).value, want.bound))
        << C;
    if (C == 1) continue;
    const Reference other = reference::layer_norm(n.x, n.gain, n.bias, 1e-3);
    EXPECT_FALSE(within(got.y, other.value, want.bound)) << C << ": the bound does not see eps";
  }
}

TEST(LayerNorm, BackwardIsWithinItsRoundingErrors) {
  for (const std::int64_t C : widths)
    for (const std::int64_t rows : {1, 7, 300}) {
      const Norm n(rows, C);
      const NormOutput got = run(n);
      const auto want = reference::layer_norm_backward(n.dy, n.x, got.mean, got.rstd, n.gain);
      EXPECT_TRUE(within(got.dx, want.dx.value, want.dx.bound)) << rows << " " << C;
      EXPECT_TRUE(within(got.dgain, want.dgain.value, want.dgain.bound)) << rows << " " << C;
      EXPECT_TRUE(within(got.dbias, want.dbias.value, want.dbias.bound)) << rows << " " << C;
      // The bounds see a row that is left out of the sums.
      const auto last = std::size_t((rows - 1) * C);
      std::vector<double> dropped = want.dbias.value;
      for (std::size_t c = 0; c < std::size_t(C); ++c) dropped[c] -= n.dy[last + c];
      EXPECT_FALSE(within(got.dbias, dropped, want.dbias.bound)) << rows << " " << C;
    }
}

TEST(LayerNorm, RowsOfThousandsOfChannelsAreWithinTheirRoundingErrors) {
  for (const std::int64_t C : {4100, 4104, 9000}) {
    const Norm n(3, C);
    const NormOutput got = run(n);
    const Reference y = reference::layer_norm(n.x, n.gain, n.bias, 1e-5f);
    EXPECT_TRUE(within(got.y, y.value, y.bound)) << C;
    const auto want = reference::layer_norm_backward(n.dy, n.x, got.mean, got.rstd, n.gain);
    EXPECT_TRUE(within(got.dx, want.dx.value, want.dx.bound)) << C;
    EXPECT_TRUE(within(got.dgain, want.dgain.value, want.dgain.bound)) << C;
    EXPECT_TRUE(within(got.dbias, want.dbias.value, want.dbias.bound)) << C;
  }
}

TEST(LayerNorm, BackwardAddsWhatOtherUsesOfXLeftThere) {
  for (const std::int64_t C : {31, 64, 4100}) {
    const Norm n(5, C);
    const Shape shape{n.rows, C};
    const auto left = normals(shape.count(), 9);
    const Tensor x = upload(device(), shape, n.x), gain = upload(device(), {C}, n.gain);
    const Tensor y = device().empty(shape), mean = device().empty({n.rows}), rstd = device().empty({n.rows}),
                 dgain = device().empty({C});
    device().run(call::Norm{y, mean, rstd, x, gain, {}, 1e-5f});
    const auto backward = [&](const Tensor& dx, const Tensor& dy, const Tensor& others) {
      device().run(call::NormBackward{dx, dgain, {}, dy, x, mean, rstd, gain, Write::overwrite, others});
      return download(device(), dx);
    };
    const auto dy = [&] { return upload(device(), shape, n.dy); };
    const auto others = [&] { return upload(device(), shape, left); };
    std::vector<float> want = backward(device().empty(shape), dy(), {});
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = left[i] + want[i];
    EXPECT_EQ(backward(device().empty(shape), dy(), others()), want) << C;
    const Tensor in_dy = dy(), in_others = others();
    EXPECT_EQ(backward(in_dy, in_dy, others()), want) << C;
    EXPECT_EQ(backward(in_others, dy(), in_others), want) << C;
  }
}

TEST(LayerNorm, BackwardAddsToTheGradientsOnRequest) {
  const Norm n(70, 33);
  const NormOutput fresh = run(n), summed = run(n, true, Write::accumulate);
  const double ranges = 70;  // at most one addition per row more than without
  for (std::size_t c = 0; c < 33; ++c) {
    EXPECT_NEAR(summed.dgain[c], double(fresh.dgain[c]) + n.gain[c], gamma(ranges) * 300);
    EXPECT_NEAR(summed.dbias[c], double(fresh.dbias[c]) + n.bias[c], gamma(ranges) * 300);
  }
}

TEST(LayerNorm, ANaNStaysInItsRow) {
  Norm n(3, 20);
  n.x[25] = NAN;
  const NormOutput got = run(n);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(got.y[i]), i / 20 == 1) << i;
}

// --- cross entropy

struct CrossEntropy {
  float loss;
  std::vector<float> losses, dlogits;
};
CrossEntropy cross_entropy(const std::vector<float>& logits, const std::vector<std::int32_t>& targets,
                           float scale) {
  const auto rows = std::int64_t(targets.size()), V = std::int64_t(logits.size()) / rows;
  const Tensor x = upload(device(), {rows, V}, logits), loss = device().empty({1}),
               losses = device().empty({rows});
  device().run(call::CrossEntropy{loss, losses, x, x, upload(device(), {rows}, targets), scale});
  return {download(device(), loss)[0], download(device(), losses), download(device(), x)};
}

TEST(CrossEntropy, LossAndGradientAreWithinTheirRoundingErrorsInPlace) {
  for (const std::int64_t V : {1, 5, 65, 264, 50257, 60001}) {
    const std::int64_t rows = V > 50000 ? 2 : 9;
    const std::vector<float> logits = normals(rows * V, 5, 3);
    const std::vector<std::int32_t> targets = random_tokens(rows, std::int32_t(V), 6);
    const CrossEntropy got = cross_entropy(logits, targets, 0.25f);
    const auto want = reference::cross_entropy(logits, targets, 0.25);
    EXPECT_TRUE(within(got.losses, want.losses.value, want.losses.bound)) << V;
    EXPECT_TRUE(within(got.dlogits, want.dlogits.value, want.dlogits.bound)) << V;
    double mean = 0;
    for (const float l : got.losses) mean += double(l) / double(rows);
    EXPECT_NEAR(got.loss, mean, 2 * unit_roundoff * mean) << V;
  }
}

TEST(CrossEntropy, WithoutAGradientTheLogitsStay) {
  const std::vector<float> logits = normals(3 * 65, 5);
  const std::vector<std::int32_t> targets{0, 64, 7};
  const Tensor x = upload(device(), {3, 65}, logits), loss = device().empty({1}),
               losses = device().empty({3});
  device().run(call::CrossEntropy{loss, losses, {}, x, upload(device(), {3}, targets), 1});
  EXPECT_EQ(download(device(), x), logits);
  EXPECT_EQ(download(device(), losses), cross_entropy(logits, targets, 1).losses);
}

TEST(CrossEntropy, ALogitThatIsNotFiniteShowsInTheLoss) {
  for (const float bad : {NAN, INFINITY})
    for (const std::size_t where : {0, 16, 64}) {
      std::vector<float> logits = normals(65, 5);
      logits[where] = bad;
      EXPECT_FALSE(std::isfinite(cross_entropy(logits, {3}, 1).loss)) << bad << " at " << where;
    }
}

TEST(CrossEntropy, ALossBeyondF32HasNoFiniteGradient) {
  const CrossEntropy got = cross_entropy({-3e38f, 3e38f, 0, 0}, {0, 0}, 1);
  EXPECT_EQ(got.losses[0], INFINITY);
  EXPECT_TRUE(std::isnan(got.dlogits[0]) && std::isnan(got.dlogits[1]));
  EXPECT_EQ(got.dlogits[2], -0.5f * 0.5f);
}

TEST(Rows, TiersAndThreadCountsGiveTheSameBits) {
  const Norm n(301, 65);
  const std::vector<float> logits = normals(301 * 65, 5, 3);
  const std::vector<std::int32_t> targets = random_tokens(301, 65, 6);
  expect_same_bits_everywhere([&] {
    NormOutput norm = run(n);
    std::vector<float> all = norm.y;
    for (const auto* part : {&norm.mean, &norm.rstd, &norm.dx, &norm.dgain, &norm.dbias}) append(all, *part);
    const CrossEntropy ce = cross_entropy(logits, targets, 1);
    append(all, ce.losses);
    append(all, ce.dlogits);
    return append(all, {ce.loss});
  });
}

}  // namespace
}  // namespace mxtape::test
