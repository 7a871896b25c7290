#include "formats/rotation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

constexpr DrawKey signs{9, Purpose::hadamard_signs, 4, 0, 0};

std::vector<float> rotated(const std::vector<float>& x, std::int64_t rows, std::int64_t cols, Axis axis,
                           const Rotation& rotation) {
  std::vector<float> y(x.size());
  rotate_reference(y.data(), x.data(), rows, cols, axis, rotation, signs);
  return y;
}

TEST(Hadamard, AChunkIsMultipliedByTheSylvesterMatrix) {
  // H[i][j] = (-1)^popcount(i & j). g terms of f32 rounding log2(g) + 1 times: error below (log2 g + 2) u
  // sum|x| / sqrt(g), u = 2^-24.
  Random random(1);
  for (const std::int64_t g : {2, 16, 32, 256}) {
    const auto x = random_values(random, g);
    const auto y = rotated(x, 1, g, Axis::row, {std::int32_t(g), SignsPer::run});
    for (std::int64_t j = 0; j < g; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < g; ++i) {
        const double v = double(x[std::size_t(i)]) * rotation_sign(signs, std::uint64_t(i));
        sum += std::popcount(std::uint64_t(i & j)) % 2 ? -v : v;
        magnitude += std::fabs(v);
      }
      const double bound = (std::log2(double(g)) + 2) * 0x1p-24 * magnitude / std::sqrt(double(g));
      EXPECT_NEAR(y[std::size_t(j)], sum / std::sqrt(double(g)), bound) << g << " " << j;
    }
  }
}

TEST(Hadamard, ProductsOfTwoRotatedOperandsStayTheSame) {
  for_all(
      "x' y'^T == x y^T", 200,
      [](Random& random) {
        const std::int64_t k = integer_in(random, 1, 150);
        return std::tuple(k, random_values(random, k), random_values(random, k));
      },
      [](const auto& input) {
        const auto& [k, x, y] = input;
        const Rotation rotation{64, SignsPer::step};
        const auto a = rotated(x, 1, k, Axis::row, rotation);
        const auto b = rotated(y, k, 1, Axis::column, rotation);
        double before = 0, after = 0, xx = 0, yy = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          before += double(x[i]) * y[i];
          after += double(a[i]) * b[i];
          xx += double(x[i]) * x[i];
          yy += double(y[i]) * y[i];
        }
        // Each rotated vector is off by at most (log2 g + 2) u of its norm times sqrt(g).
        return std::fabs(after - before) <= 2 * 8 * 0x1p-24 * 8 * std::sqrt(xx * yy);
      });
}

TEST(Hadamard, BackUndoesForth) {
  Random random(3);
  for (const Axis axis : {Axis::row, Axis::column})
    for (const SignsPer per : {SignsPer::none, SignsPer::step}) {
      const auto x = random_values(random, 70 * 43);
      const Rotation rotation{32, per};
      auto y = rotated(x, 70, 43, axis, rotation);
      rotate_reference(y.data(), y.data(), 70, 43, axis, rotation, signs, RotationWay::back);
      double norm = 0;
      for (const float v : x) norm += double(v) * v;
      // Twice (log2 g + 2) roundings of the chunk's 1-norm over sqrt(g), at most the tensor's 2-norm.
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(y[i], x[i], 2 * 7 * 0x1p-24 * std::sqrt(norm)) << i;
    }
}

TEST(Hadamard, ARaggedEndIsCutIntoPowersOfTwo) {
  const Rotation rotation{32, SignsPer::none};
  EXPECT_EQ(rotation_chunk(rotation, 0, 43), 32);
  EXPECT_EQ(rotation_chunk(rotation, 32, 43), 8);
  EXPECT_EQ(rotation_chunk(rotation, 40, 43), 2);
  EXPECT_EQ(rotation_chunk(rotation, 42, 43), 1);
  std::vector<float> x(43);
  x[42] = 3;
  EXPECT_EQ(rotated(x, 1, 43, Axis::row, rotation), x);
}

TEST(Hadamard, SignsAreBalancedAndSizeZeroDoesNothing) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) sum += rotation_sign(signs, i);
  EXPECT_LT(std::fabs(sum), 5 * std::sqrt(100000.0));  // five deviations of a fair coin
  const std::vector<float> x{1, 2, 3};
  EXPECT_EQ(rotated(x, 1, 3, Axis::row, {}), x);
}

}  // namespace
}  // namespace mxtape
