#include "program/records/spectrum.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mxtape {
namespace {

TEST(Spectrum, OfADiagonalIsTheDiagonal) {
  const std::vector<float> x{0, 2, 0, 0, -3, 0, 0, 0, 0, 0, 1, 0};  // [3, 4]
  const Spectrum s = spectrum_of(x.data(), 3, 4);
  ASSERT_EQ(s.values.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(s.values[i], 3.0 - double(i), 1e-12);
  EXPECT_NEAR(s.values.front() / s.values.back(), 3, 1e-12);
  EXPECT_NEAR(s.largest_share, 9.0 / 14, 1e-12);
  const double h = -(3.0 / 6 * std::log(3.0 / 6) + 2.0 / 6 * std::log(2.0 / 6) + 1.0 / 6 * std::log(1.0 / 6));
  EXPECT_NEAR(s.effective_rank, std::exp(h), 1e-12);
}

TEST(Spectrum, AnOuterProductHasRankOneAndAnOrthogonalMatrixFullRank) {
  std::vector<float> outer;
  for (int r = 0; r < 5; ++r)
    for (int c = 0; c < 3; ++c) outer.push_back(float(r + 1) * float(c - 5));
  const Spectrum one = spectrum_of(outer.data(), 5, 3);
  EXPECT_NEAR(one.effective_rank, 1, 1e-6);
  EXPECT_NEAR(one.largest_share, 1, 1e-12);
  EXPECT_EQ(one.values.back(), 0);
  const std::vector<float> orthogonal{0.6f, 0.8f, -0.8f, 0.6f};
  EXPECT_NEAR(spectrum_of(orthogonal.data(), 2, 2).effective_rank, 2, 1e-6);
}

TEST(Spectrum, OfZerosIsZero) {
  const std::vector<float> x(6);
  const Spectrum s = spectrum_of(x.data(), 2, 3);
  EXPECT_EQ(s.values, (std::vector<double>{0, 0}));
  EXPECT_EQ(s.effective_rank, 0);
}

}  // namespace
}  // namespace mxtape
