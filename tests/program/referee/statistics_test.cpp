// Against numbers recorded from SciPy 1.17.1 and statsmodels 0.15.0 (Holm):
//   multipletests(p, method='holm'); spearmanr, and its interval by the formula of the header;
//   PchipInterpolator(log x, loss), inverted by brentq.
#include "program/referee/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/program/referee/law_losses.h"

namespace mxtape::referee::test {
namespace {

constexpr double tolerance = 1e-9;

TEST(RefereeStatistics, HolmsCorrectionIsStatsmodels) {
  const std::vector<double> p{0.0125, 0.6, 0.0031, 0.04, 0.0125, 0.9};
  const std::vector<double> wanted{0.0625, 1, 0.0186, 0.12, 0.0625, 1};
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(holm(p[i], p), wanted[i], tolerance);
}

TEST(RefereeStatistics, RankCorrelationWithTiesIsSciPys) {
  const std::vector<double> x{0.11, 0.35, 0.20, 0.35, 0.05, 0.42, 0.27, 0.19},
      y{0.004, 0.021, 0.018, 0.012, 0.001, 0.030, 0.018, 0.006};
  const Estimate rho = rank_correlation(x, y);
  EXPECT_NEAR(rho.value, 0.8915662650602408, tolerance);
  EXPECT_NEAR(rho.interval95.value()[0], 0.3742376550230285, tolerance);
  EXPECT_NEAR(rho.interval95.value()[1], 0.9856700322245541, tolerance);
}

const LossCurve falling{{245760, 491520, 983040, 1966080, 4915200},
                        {1.92929, 1.58329, 1.31843, 1.11954, 0.93}};

TEST(LossCurve, IsSciPysMonotoneCubic) {
  const double wanted[][2] = {
      {245760, 1.92929}, {300000, 1.8211096064526142},  {600000, 1.4997295167709381},
      {983040, 1.31843}, {1500000, 1.1900531895457158}, {4000000, 0.9657060435062813}};
  for (const auto& [x, loss] : wanted) EXPECT_NEAR(falling.loss_at(x).value(), loss, tolerance);
  const LossCurve uneven{falling.x, {1.9, 1.3, 1.32, 1.31, 1.0}};
  const double turning[][2] = {{300000, 1.6467440514178626},
                               {600000, 1.3040140498295962},
                               {1500000, 1.316051423366361},
                               {4000000, 1.1037313793381025}};
  for (const auto& [x, loss] : turning) EXPECT_NEAR(uneven.loss_at(x).value(), loss, tolerance);
}

TEST(LossCurve, FindsTheTokensOfALossAsSciPyDoes) {
  const double wanted[][2] = {{1.9, 259108.28552426916},
                              {1.5, 599599.3072330313},
                              {1.2, 1447765.4976361147},
                              {1.0, 3351509.5267179585}};
  for (const auto& [loss, x] : wanted) EXPECT_NEAR(falling.x_at(loss).value() / x, 1, tolerance);
}

TEST(LossCurve, NothingIsExtrapolatedAndNoLossIsTakenTwice) {
  EXPECT_EQ(falling.x_at(1.92929), 245760) << "its own end is still the curve";
  EXPECT_EQ(falling.x_at(0.93), 4915200);
  EXPECT_FALSE(falling.x_at(1.93).has_value());
  EXPECT_FALSE(falling.x_at(0.92).has_value());
  EXPECT_FALSE(falling.loss_at(245759).has_value());
  EXPECT_EQ(falling.x_at(1.31843), 983040) << "a point between two pieces is one place";
  EXPECT_FALSE((LossCurve{{1, 2, 4}, {3, 1, 2}}.x_at(1.5).has_value())) << "it has this loss twice";
  EXPECT_FALSE((LossCurve{{1, 2, 4}, {2, 2, 1}}.x_at(2).has_value())) << "it stays there";
}

constexpr ScalingLaw of_pairs{.A = 100, .alpha = 0.5, .B = 300, .beta = 0.45, .gamma = 0.9, .floor = 0.3238};

/// What a seed adds to all losses of both arms cancels.
LossCurve curve_of(double eff_d, double of_seed = 0) {
  LossCurve curve;
  for (const double d : {1e6, 2e6, 4e6, 8e6}) {
    curve.x.push_back(d);
    curve.loss.push_back(loss(of_pairs, 1e5, d, 1, eff_d) * (1 + of_seed));
  }
  return curve;
}

// The cubic through losses a factor of two apart is off by less than 1 % of the tokens here; a chord by 2.
TEST(RefereeEfficiency, IsTheShareOfTokensThatMadeTheCurves) {
  for (const double eff_d : {0.7, 0.9, 1.1}) {
    std::vector<LossCurve> arm, baseline;
    for (const double of_seed : {0.0, 0.01, -0.01})
      arm.push_back(curve_of(eff_d, of_seed)), baseline.push_back(curve_of(1, of_seed));
    for (const double d : {2e6, 4e6, 8e6}) {
      const Efficiency found = efficiency_at(d, arm, baseline);
      ASSERT_TRUE(found.ratio.has_value()) << found.why;
      EXPECT_NEAR(found.ratio->value / eff_d, 1, 0.01) << eff_d << " at " << d;
    }
  }
}

TEST(RefereeEfficiency, TheOtherWayRoundIsTheBreakEvenSpeedUp) {
  const std::vector<LossCurve> arm{curve_of(0.8)}, baseline{curve_of(1)};
  EXPECT_NEAR(efficiency_at(4e6, baseline, arm).ratio.value().value, 1 / 0.8, 0.01);
  EXPECT_EQ(efficiency_at(8e6, baseline, arm).ratio.value().value,
            1 / efficiency_at(8e6, arm, baseline).ratio.value().value)
      << "at the longest only the baseline's curve reaches the arm's loss";
}

TEST(RefereeEfficiency, BeyondTheCurvesThereIsNone) {
  const std::vector<LossCurve> arm{curve_of(0.1), curve_of(0.9)}, baseline(2, curve_of(1));
  EXPECT_EQ(efficiency_at(8e6, arm, baseline).why, "beyond the curves with 1 of 2 seeds");
}

}  // namespace
}  // namespace mxtape::referee::test
