
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/straight_through.h"

namespace mxtape {
namespace {

using Complex = std::complex<double>;

/// The factors of x as one row.
std::vector<float> factors(const std::string& ste, const std::string& q, const std::vector<float>& x) {
  const std::vector<float> ones(x.size(), 1);
  std::vector<float> y(x.size());
  straight_through_reference(y.data(), ones.data(), x.data(), 1, std::int64_t(x.size()), Axis::row,
                             parse_quantizer(q), parse_straight_through(ste), {});
  return y;
}

TEST(StraightThrough, TheIdentityLetsAllPass) {
  EXPECT_EQ(factors("ste=identity", "mxfp4", {7, -7, 0, 5, NAN}), (std::vector<float>{1, 1, 1, 1, 1}));
}

TEST(StraightThrough, TheMaskIsZeroExactlyBeyondTheLargestElement) {
  // Floor: the largest magnitude, 7.5, is below 8, so S = 1 and 6 is the largest element.
  const std::vector<float> x{7.5f, 6, std::nextafter(6.0f, 7.0f), -6, -6.5f, 5.9f, 0, -0.1f};
  EXPECT_EQ(factors("ste=mask", "mxfp4", x), (std::vector<float>{0, 1, 0, 1, 0, 1, 1, 1}));
  EXPECT_EQ(factors("ste=mask", "mxfp4 rule=rceil", x), std::vector<float>(8, 1)) << "nothing is clipped";
  EXPECT_EQ(factors("ste=mask", "mxfp4 alpha=0.75", x), std::vector<float>(8, 1)) << "7.5 * 0.75 < 6";
  for (float scale : {0x1p-40f, 0x1p30f}) {
    std::vector<float> scaled = x;
    for (float& v : scaled) v *= scale;
    EXPECT_EQ(factors("ste=mask", "mxfp4", scaled), factors("ste=mask", "mxfp4", x));
  }
}

TEST(StraightThrough, TheMaskKnowsGridsThatAreNotSymmetricAndCastsWithoutAScale) {
  // Of -2, -1.75 ... 1.75 the scale 1 is picked by floor for magnitudes below 2.
  EXPECT_EQ(factors("ste=mask", "int4 block=32 scale=e8m0 range=full", {1.9f, -1.9f, 1.75f}),
            (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(factors("ste=mask", "int4 block=32 scale=e8m0", {1.9f, -1.9f, 1.75f}),
            (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(factors("ste=mask", "e4m3", {448, 449, -500}), (std::vector<float>{1, 0, 0}));
  // With a zero point the grid begins at the smallest element.
  EXPECT_EQ(factors("ste=mask", "int4 block=32 scale=f32 offset=int", {0, 1, 3, 7}),
            (std::vector<float>{1, 1, 1, 1}));
}

/// The positive elements of a format, written out.
struct Steps {
  const char* quantizer;
  std::vector<double> elements;
};
std::vector<double> multiples(double step, int count) {
  std::vector<double> all;
  for (int i = 0; i <= count; ++i) all.push_back(i * step);
  return all;
}
const std::vector<Steps> grids{{"e2m1", {0, .5, 1, 1.5, 2, 3, 4, 6}},
                               {"e3m0", {0, .25, .5, 1, 2, 4, 8, 16}},
                               {"e2m3", {0, .125, .25, .375, .5, .625, .75, .875, 1, 1.125}},
                               {"int4", multiples(.25, 7)}};

/// The curve that stands in for rounding: eq. 4 of arXiv:2501.17116, from one element to the next.
Complex stand_in(const std::vector<double>& elements, double k, Complex v) {
  const auto above = std::upper_bound(elements.begin(), elements.end(), v.real());
  const double low = *(above - 1), step = *above - low;
  const Complex from_middle = 2.0 * (v - low) / step - 1.0;
  const Complex root = from_middle.real() < 0 ? -std::pow(-from_middle, 1 / k) : std::pow(from_middle, 1 / k);
  return low + step / 2 * (1.0 + root);
}

TEST(StraightThrough, DgeIsTheDerivativeOfTheCurve) {
  int compared = 0;
  for (const Steps& grid : grids)
    for (const double k : {2.0, 3.0, 5.0}) {
      std::vector<float> x;
      for (float v = 0.013f; v < float(grid.elements.back()); v += 0.0371f) x.push_back(v);
      const auto got = factors("ste=dge k=" + std::to_string(k) + " most=1000", grid.quantizer, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Complex f = stand_in(grid.elements, k, {double(x[i]), 1e-30});
        const double want = f.imag() / 1e-30;
        // t is exact in f32; the series are good to 1e-14, the result is rounded once.
        EXPECT_NEAR(got[i], want, 0x1p-23 * want) << grid.quantizer << " " << x[i];
        ++compared;
      }
    }
  EXPECT_GT(compared, 900);
}

TEST(StraightThrough, DgeIsEvenHeldAndZeroBeyondTheGrid) {
  const std::vector<float> x{2.5f, -2.5f, 2.51f, 3, -3, 6, 6.1f, -7};
  const auto y = factors("ste=dge", "mxfp4", x);
  EXPECT_EQ(y[0], 3) << "midway the slope is infinite";
  EXPECT_EQ(y[1], 3);
  EXPECT_EQ(y[2], 3) << "(1/5) 0.02^-0.8 = 4.6";
  EXPECT_FLOAT_EQ(y[3], 0.2f) << "1/k at an element";
  EXPECT_EQ(y[4], y[3]);
  EXPECT_FLOAT_EQ(y[5], 0.2f);
  EXPECT_EQ(y[6], 0);
  EXPECT_EQ(y[7], 0);
  EXPECT_EQ(factors("ste=dge most=1", "mxfp4", x)[0], 1);
}

TEST(StraightThrough, TheGradientIsMultipliedByTheFactor) {
  const std::vector<float> x{7.5f, 1, 2.3f, -4.4f}, dy{3, -2, 0.5f, 8};
  std::vector<float> dx = dy;
  straight_through_reference(dx.data(), dx.data(), x.data(), 2, 2, Axis::column, mxfp4,
                             {.kind = SteKind::dge}, {});
  // Columns: {7.5, 2.3} and {1, -4.4}, whose scales are both 1.
  const auto of_first = factors("ste=dge", "mxfp4", {7.5f, 2.3f}),
             of_second = factors("ste=dge", "mxfp4", {1, -4.4f});
  EXPECT_EQ(dx,
            (std::vector<float>{3 * of_first[0], -2 * of_second[0], 0.5f * of_first[1], 8 * of_second[1]}));
}

TEST(StraightThrough, SeriesAgreeWithTheLibrary) {
  for (float u = 0x1p-24f; u <= 1; u *= 1.37f) {
    EXPECT_NEAR(log2_by_series(u), std::log2(double(u)), 1e-13);
    for (const double p : {-0.5, -0.8, -0.99}) {
      const double want = std::pow(double(u), p);
      EXPECT_NEAR(exp2_by_series(p * log2_by_series(u)), want, 1e-12 * want);
    }
  }
}

TEST(StraightThrough, TextsComeBackAndBadOnesAreRefused) {
  for (const char* text : {"ste=identity", "ste=mask", "ste=dge", "ste=dge k=3", "ste=dge k=7.5 most=2"})
    EXPECT_EQ(to_text(parse_straight_through(text)), text);
  EXPECT_EQ(parse_straight_through("ste=dge k=5 most=3"), (StraightThrough{.kind = SteKind::dge}));
  const auto refused = [](const char* text) -> std::string {
    try {
      parse_straight_through(text);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return e.what();
    }
  };
  EXPECT_EQ(refused("ste=maks"), "straight-through: unknown ste=maks; did you mean 'mask'?");
  EXPECT_EQ(refused("ste=dge k=0.5"), "straight-through: k=0.5; want a number above 1, at most 1000");
  EXPECT_EQ(refused("ste=dge k=1"), "straight-through: k=1; want a number above 1, at most 1000");
  EXPECT_EQ(refused("ste=mask k=3"), "straight-through: 'k=' has no effect without ste=dge");
  EXPECT_EQ(refused("ste=dge ste=mask"), "straight-through: 'ste' is given twice");
  EXPECT_TRUE(refused("ste=dge cap=3").starts_with("straight-through: unknown word 'cap=3'"));
}

}  // namespace
}  // namespace mxtape
