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

constexpr std::int64_t widths[] = {1, 5, 7, 16, 31, 65, 264, 384};
constexpr float eps = 1e-3f;

struct Norm {
  std::int64_t rows, C;
  std::vector<float> x, gain, dy;
  /// Every third row is small against eps.
  Norm(std::int64_t rows, std::int64_t C)
      : rows(rows), C(C), x(normals(rows * C, 1, 3)), gain(normals(C, 2)), dy(normals(rows * C, 4)) {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = (x[i] + 2) * (i / std::size_t(C) % 3 == 0 ? 0x1p-8f : 1);
  }
};

struct NormOutput {
  std::vector<float> y, rstd, dx, dgain;
};

NormOutput run(const Norm& n, Write write = Write::overwrite) {
  const Shape shape{n.rows, n.C};
  const Tensor x = upload(device(), shape, n.x), gain = upload(device(), {n.C}, n.gain),
               y = device().empty(shape), rstd = device().empty({n.rows});
  device().run(call::Norm{y, {}, rstd, x, gain, {}, eps});
  const Tensor dx = upload(device(), shape, n.dy), dgain = upload(device(), {n.C}, n.gain);
  device().run(call::NormBackward{dx, dgain, {}, dx, x, {}, rstd, gain, write});  // in place
  return {download(device(), y), download(device(), rstd), download(device(), dx), download(device(), dgain)};
}

void expect_within_rounding_errors(std::int64_t rows, std::int64_t C) {
  const Norm n(rows, C);
  SCOPED_TRACE(testing::Message() << rows << " " << C);
  const NormOutput got = run(n);
  const auto [y, rstd] = reference::rms_norm(n.x, n.gain, eps);
  EXPECT_TRUE(within(got.y, y.value, y.bound));
  EXPECT_TRUE(within(got.rstd, rstd.value, rstd.bound));
  const auto [dx, dgain] = reference::rms_norm_backward(n.dy, n.x, got.rstd, n.gain);
  EXPECT_TRUE(within(got.dx, dx.value, dx.bound));
  EXPECT_TRUE(within(got.dgain, dgain.value, dgain.bound));
  const auto summed = reference::rms_norm_backward(n.dy, n.x, got.rstd, n.gain, n.gain);
  EXPECT_TRUE(within(run(n, Write::accumulate).dgain, summed.dgain.value, summed.dgain.bound));
}

TEST(RmsNorm, IsWithinItsRoundingErrors) {
  for (const std::int64_t C : widths)
    for (const std::int64_t rows : {1, 7, 300}) expect_within_rounding_errors(rows, C);
}

TEST(RmsNorm, RowsOfThousandsOfChannelsAreWithinTheirRoundingErrors) {
  for (const std::int64_t C : {4096, 4100, 4104, 9000}) expect_within_rounding_errors(3, C);
}

TEST(RmsNorm, TheBoundsSeeEpsAndARowThatIsLeftOut) {
  for (const std::int64_t C : widths) {
    const Norm n(7, C);
    const NormOutput got = run(n);
    const Reference y = reference::rms_norm(n.x, n.gain, eps).y;
    EXPECT_FALSE(within(got.y, reference::rms_norm(n.x, n.gain, eps * 1.001).y.value, y.bound)) << C;
    const Reference dgain = reference::rms_norm_backward(n.dy, n.x, got.rstd, n.gain).dgain;
    std::vector<double> dropped = dgain.value;
    for (std::size_t c = 0; c < std::size_t(C); ++c)
      dropped[c] -= double(n.dy[6 * std::size_t(C) + c]) * n.x[6 * std::size_t(C) + c] * got.rstd[6];
    EXPECT_FALSE(within(got.dgain, dropped, dgain.bound)) << C;
  }
}

TEST(RmsNorm, BackwardAddsWhatOtherUsesOfXLeftThere) {
  for (const std::int64_t C : {31, 64, 4100}) {
    const Norm n(5, C);
    const Shape shape{n.rows, C};
    const auto left = normals(shape.count(), 9);
    const Tensor x = upload(device(), shape, n.x), gain = upload(device(), {C}, n.gain),
                 rstd = upload(device(), {n.rows}, run(n).rstd), dgain = device().empty({C});
    const auto backward = [&](const Tensor& dx, const Tensor& dy, const Tensor& others) {
      device().run(call::NormBackward{dx, dgain, {}, dy, x, {}, rstd, gain, Write::overwrite, others});
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

TEST(RmsNorm, ARowOfZerosStaysZeroAndANaNStaysInItsRow) {
  Norm n(3, 20);
  for (std::size_t i = 0; i < 20; ++i) n.x[i] = 0;
  n.x[25] = NAN;
  const NormOutput got = run(n);
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(std::isnan(got.y[i]), i / 20 == 1) << i;
    EXPECT_EQ(std::isfinite(got.dx[i]), i / 20 != 1) << i;
    EXPECT_EQ(got.y[i] == 0, i < 20) << i;
  }
}

TEST(RmsNorm, RowsThatNoBlockOfTheGpuHoldsAreRefused) {
  if (device_is_cpu()) GTEST_SKIP() << "the CPU has no limit";
  try {
    run(Norm(1, 32769));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cuda: norm: rows of 32769; at most 32768 fit into a block's registers");
  }
}

TEST(RmsNorm, WithABiasIsRefused) {
  const Tensor x = device().empty({2, 8}), row = device().empty({8}), rstd = device().empty({2});
  EXPECT_THROW(device().run(call::Norm{
                   .y = device().empty({2, 8}), .mean = {}, .rstd = rstd, .x = x, .gain = row, .bias = row}),
               Error);
  EXPECT_THROW(device().run(call::NormBackward{.dx = device().empty({2, 8}),
                                               .dgain = device().empty({8}),
                                               .dbias = device().empty({8}),
                                               .dy = x,
                                               .x = x,
                                               .mean = {},
                                               .rstd = rstd,
                                               .gain = row}),
               Error);
}

TEST(RmsNorm, TiersAndThreadCountsGiveTheSameBits) {
  for (const auto& [rows, C] : {std::pair(301, 65), {3, 4100}}) {
    const Norm n(rows, C);
    expect_same_bits_everywhere([&] {
      NormOutput got = run(n);
      for (const auto* part : {&got.rstd, &got.dx, &got.dgain}) append(got.y, *part);
      return got.y;
    });
  }
}

}  // namespace
}  // namespace mxtape::test
