// Claims about errors on synthetic numbers that the literature makes: docs/claims.md, N4 to N6. The others of
// that page name the tests that hold them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/normal.h"
#include "formats/statistics.h"

namespace mxtape {
namespace {

constexpr std::int64_t sample_rows = 4096, sample_cols = 128;  // 2^19 numbers: an error is known to 0.001

std::vector<float> normal_numbers() {
  std::vector<float> x;
  for (std::uint64_t i = 0; i < sample_rows * sample_cols / 2; ++i) {
    const NormalPair pair = normal_pair(DrawKey{4, Purpose::sampling}, i);
    x.push_back(pair.first);
    x.push_back(pair.second);
  }
  return x;
}
/// What a linear layer after a GELU sees: most of it just below zero.
std::vector<float> after_gelu() {
  auto x = normal_numbers();
  for (float& v : x) v = float(0.5 * double(v) * std::erfc(-double(v) * 0.7071067811865476));
  return x;
}

double error_of(const std::vector<float>& x, const std::string& format) {
  return error_statistics(x.data(), sample_rows, sample_cols, Axis::row, parse_quantizer(format), {7}).relative_rmse();
}

TEST(Claims, N4MidpointsHelpInt4AndMostAfterGeluButNotE2m1) {
  const auto normal = normal_numbers(), gelu = after_gelu();
  const char *int4 = "int4 emax=3 scale=e8m0 rule=ceil", *e2m1 = "mxfp4 rule=even";
  const auto gain = [](const std::vector<float>& x, const char* format) {
    return error_of(x, fmt::format("{} offset=fp16", format)) / error_of(x, format) - 1;
  };
  EXPECT_NEAR(gain(normal, int4), -0.10, 0.02);
  EXPECT_NEAR(gain(gelu, int4), -0.44, 0.02);
  EXPECT_GT(gain(normal, e2m1), -0.03);
  EXPECT_GT(gain(gelu, e2m1), -0.03);
  // So on skewed numbers INT4 with midpoints beats E2M1, which wins on symmetric ones.
  EXPECT_LT(error_of(gelu, fmt::format("{} offset=fp16", int4)), error_of(gelu, e2m1));
  EXPECT_GT(error_of(normal, int4), error_of(normal, e2m1));
}

TEST(Claims, N5SmallerBlocksGainMostWithMidpointsAndInt4AndLeastWithE2m1) {
  const auto x = normal_numbers();
  const auto gain = [&](const std::string& format) {
    return error_of(x, format + " block=16") / error_of(x, format + " block=32") - 1;
  };
  EXPECT_NEAR(gain("int4 emax=3 scale=e8m0 rule=ceil offset=fp16"), -0.18, 0.02);
  EXPECT_NEAR(gain("mxfp4 rule=even"), -0.02, 0.02);
}

TEST(Claims, N6RandomRoundingDoublesTheSquaredErrorOfMxfp4AndMoreOfNvfp4) {
  const auto x = normal_numbers();
  const auto ratio = [&](const std::string& stochastic, const std::string& nearest) {
    return std::pow(error_of(x, stochastic) / error_of(x, nearest), 2);
  };
  EXPECT_NEAR(ratio("mxfp4 alpha=0.75 round=stochastic", "mxfp4 alpha=0.75"), 2.0, 0.05);
  EXPECT_NEAR(ratio("nvfp4 alpha=0.9411765 round=stochastic", "nvfp4"), 2.6, 0.05);
}

}  // namespace
}  // namespace mxtape
