#include "formats/round_by_average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "formats/codec/codec.h"
#include "formats/quantize.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

/// The magnitudes of a format on one side of zero, from its codes.
std::vector<double> magnitudes(const ElementFormat& f, bool negative) {
  std::vector<double> all;
  for (std::uint32_t code = 0; code < 1u << f.bits(); ++code) {
    const double value = double(decode(f, code));
    if (std::isfinite(value) && (value == 0 || (value < 0) == negative)) all.push_back(std::abs(value));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Section 5.1 of TetraJet on a list of values, in double: q1 towards zero, q2 the next; which one is nearer
/// to the average, a tie to q2.
double by_hand(const ElementFormat& f, double x, double average) {
  if (x == 0) return 0;
  const auto all = magnitudes(f, x < 0);
  const auto next = std::upper_bound(all.begin(), all.end(), std::abs(x));
  const double q1 = *(next - 1), mine = x < 0 ? -average : average;
  if (next == all.end()) return std::copysign(q1, x);
  return std::copysign(std::abs(*next - mine) <= std::abs(mine - q1) ? *next : q1, x);
}

TEST(RoundByAverage, TakesTheNeighbourThatIsNearerToTheAverage) {
  int up = 0, down = 0, far = 0;
  for (const NamedFormat& row : element_formats) {
    if (row.format.exponent_bits == 8 || row.format.mantissa_bits > 8 || row.format.bits() > 8) continue;
    const float top = row.format.max_finite();
    const auto xs = normals(400, 1, top / 3), shifts = normals(400, 2, top / 6);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const float average = xs[i] + shifts[i];
      const float got = round_by_average(grid_of(row.format), xs[i], average);
      ASSERT_EQ(double(got), by_hand(row.format, xs[i], average))
          << row.name << " " << xs[i] << " " << average;
      const float nearest = round_even(grid_of(row.format), xs[i]);
      up += std::abs(got) > std::abs(nearest), down += std::abs(got) < std::abs(nearest);
      far += average * xs[i] < 0;
    }
  }
  EXPECT_GT(up, 100);
  EXPECT_GT(down, 100);
  EXPECT_GT(far, 100);
}

TEST(RoundByAverage, AnAverageThatStaysOnOneSideOfTheMiddleHoldsASwingingWeight) {
  const Grid g = grid_of(e2m1);
  for (const float x : {2.4f, 2.6f, 2.45f, 2.9f, 2.1f}) EXPECT_EQ(round_by_average(g, x, 2.51f), 3);
  for (const float x : {2.4f, 2.6f, 2.45f, 2.9f, 2.1f}) EXPECT_EQ(round_by_average(g, x, 2.49f), 2);
  EXPECT_EQ(round_by_average(g, 2.0f, 9), 3);  // on the grid: itself or the next, as the published code
  EXPECT_EQ(round_by_average(g, -0.1f, 9), 0);
  EXPECT_TRUE(std::isnan(round_by_average(g, std::nanf(""), 1)));
  EXPECT_EQ(round_by_average(g, 2.4f, std::nanf("")), 2);
}

TEST(RoundByAverage, TheScaleIsTheWeightsAndTheAverageIsInItsUnits) {
  const Quantizer q = parse_quantizer("mxfp4 rule=rceil ema");
  const std::int64_t rows = 8, cols = 64;
  const auto x = normals(rows * cols, 3), shifts = normals(rows * cols, 4, 0.2f);
  std::vector<std::uint32_t> averages;
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) averages.push_back(bits_of(x[i] + shifts[i]));
  quantize_with_draws(y.data(), x.data(), rows, cols, Axis::row, q, averages);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float amax = 0;
    for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) amax = std::max(amax, std::abs(x[j]));
    const double scale = std::exp2(std::ceil(std::log2(double(amax) / 6)));
    ASSERT_EQ(double(y[i]),
              scale * by_hand(e2m1, double(x[i]) / scale, double(float_of(averages[i])) / scale));
  }
}

TEST(RoundByAverage, IsForBlocksThatRoundToNearestAlone) {
  EXPECT_EQ(to_text(parse_quantizer("mxfp4 ema rule=rceil")), "mxfp4 rule=rceil ema");
  for (const char* text :
       {"e2m1 ema", "mxfp4 ema round=stochastic", "nvfp4 ema eden", "mxfp4 ema offset=fp16",
        "nvfp4 ema scale.round=stochastic", "bf16 block=32 scale=e8m0 ema"})
    EXPECT_THROW((void)parse_quantizer(text), Error) << text;
}

}  // namespace
}  // namespace mxtape::test
