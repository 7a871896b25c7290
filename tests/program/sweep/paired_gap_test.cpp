// What paired seeds say: means, intervals and verdicts against numbers worked out by hand and with mpmath.
#include "program/records/paired_gap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mxtape::test {
namespace {

/// Of sums of a few doubles near 1e-2, and of t and p (core/student_t.h).
constexpr double bound = 1e-12;

TEST(PairedGap, MeanErrorIntervalAndPAreStudentsOfTheDifferences) {
  // d = 1, 2, 3, 4, 5 hundredths: mean 3, sum of squares 10, standard error sqrt(10 / 20) hundredths.
  const std::vector<double> d{0.01, 0.02, 0.03, 0.04, 0.05};
  const PairedGap gap = paired_gap(d, 0.001);
  EXPECT_EQ(gap.pairs, 5);
  EXPECT_NEAR(gap.mean, 0.03, bound);
  EXPECT_NEAR(gap.standard_error, 0.01 * std::sqrt(0.5), bound);
  EXPECT_NEAR(gap.interval95[0], 0.03 - 2.77644510519779349 * 0.01 * std::sqrt(0.5), bound);
  EXPECT_NEAR(gap.interval95[1], 0.03 + 2.77644510519779349 * 0.01 * std::sqrt(0.5), bound);
  EXPECT_NEAR(gap.interval90[1], 0.03 + 2.13184678632665052 * 0.01 * std::sqrt(0.5), bound);
  // t = 3 sqrt 2, 4 degrees of freedom: p = 1 - sin(a) (1 + cos^2(a) / 2), tan(a) = t / 2 (Abramowitz &
  // Stegun 26.7.4).
  const double a = std::atan(3 * std::sqrt(2.0) / 2);
  EXPECT_NEAR(gap.p, 1 - std::sin(a) * (1 + std::cos(a) * std::cos(a) / 2), bound);
  EXPECT_EQ(gap.verdict, Verdict::worse);
}

TEST(PairedGap, AVerdictIsReachedBothWaysAndOnlyWhereTheIntervalAllowsIt) {
  const auto verdict = [](std::vector<double> d, double tolerance) {
    return paired_gap(d, tolerance).verdict;
  };
  EXPECT_EQ(verdict({0.030, 0.031, 0.029}, 0.02), Verdict::worse);
  EXPECT_EQ(verdict({-0.030, -0.031, -0.029}, 0.02), Verdict::better);
  EXPECT_EQ(verdict({0.001, -0.001, 0.002}, 0.02), Verdict::within);
  EXPECT_EQ(verdict({0.010, 0.011, 0.009}, 0.02), Verdict::within) << "told from 0, and still inside";
  EXPECT_EQ(verdict({0.050, -0.040, 0.020}, 0.02), Verdict::not_resolved);
  EXPECT_EQ(verdict({0.020, 0.021, 0.019}, 0.02), Verdict::worse) << "at the edge it is not inside";
}

TEST(PairedGap, WithinTakesTheIntervalOf90PercentAsTwoOneSidedTestsAt5Do) {
  // n = 3, standard error e: the ends are mean + 2.91998558 e (90 %) and mean + 4.30265273 e (95 %).
  const std::vector<double> d{0.01 - 0.003, 0.01, 0.01 + 0.003};
  const double error = 0.003 / std::sqrt(3.0);
  const double end90 = 0.01 + 2.91998558035372607 * error, end95 = 0.01 + 4.30265272974946179 * error;
  EXPECT_EQ(paired_gap(d, end90 + 1e-9).verdict, Verdict::within);
  EXPECT_NE(paired_gap(d, end90 - 1e-9).verdict, Verdict::within);
  EXPECT_GT(end95, end90 + 1e-3);
}

TEST(PairedGap, OneSeedResolvesNothing) {
  const PairedGap gap = paired_gap(std::vector<double>{0.5}, 0.02);
  EXPECT_EQ(gap.verdict, Verdict::not_resolved);
  EXPECT_EQ(gap.mean, 0.5);
  EXPECT_TRUE(std::isinf(gap.p));
  EXPECT_TRUE(std::isinf(gap.interval95[0]) && std::isinf(gap.interval95[1]));
  EXPECT_TRUE(std::isinf(resolvable_gap(std::vector<double>{0.1}, 1)));
}

TEST(PairedGap, EqualDifferencesHaveNoError) {
  const PairedGap same = paired_gap(std::vector<double>{0, 0, 0}, 0.02);
  EXPECT_EQ(same.p, 1);
  EXPECT_EQ(same.verdict, Verdict::within);
  const PairedGap apart = paired_gap(std::vector<double>{0.5, 0.5, 0.5}, 0.02);
  EXPECT_EQ(apart.p, 0);
  EXPECT_EQ(apart.verdict, Verdict::worse);
}

TEST(PairedGap, TheResolvableGapIsTheHalfWidthOfAnIntervalOfThatSpread) {
  const std::vector<double> d{0.01, 0.02, 0.03, 0.04, 0.05};
  const PairedGap gap = paired_gap(d, 0.001);
  const double deviation = gap.standard_error * std::sqrt(5.0);
  EXPECT_NEAR(resolvable_gap(std::vector<double>{deviation}, 5), gap.interval95[1] - gap.mean, bound);
  EXPECT_NEAR(resolvable_gap(std::vector<double>{3, 4}, 4), 3.18244630528370844 * std::sqrt(12.5) / 2, 1e-10);
}

}  // namespace
}  // namespace mxtape::test
