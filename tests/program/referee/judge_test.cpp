// What follows from losses that a known law made.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "program/referee/shown.h"
#include "tests/program/referee/judged_results.h"

namespace mxtape::referee::test {
namespace {

TEST(Judge, FindsTheLawThatMadeTheLossesAndWhatItSays) {
  Results r = results();
  judge(r);
  ASSERT_TRUE(r.law.fitted && r.law.holds) << r.law.why;
  ASSERT_EQ(r.law.arms.size(), 2u);
  for (const LawArm& arm : r.law.arms) {
    EXPECT_LE(arm.parameters.interval95.value()[0], page_eff_n[arm.arm]);
    EXPECT_GE(arm.parameters.interval95.value()[1], page_eff_n[arm.arm]);
    EXPECT_LE(arm.tokens.interval95.value()[0], page_eff_d[arm.arm]);
    EXPECT_GE(arm.tokens.interval95.value()[1], page_eff_d[arm.arm]);
  }
  EXPECT_EQ(r.law.residuals.size(), 27u);
  ASSERT_EQ(r.break_even.size(), 2u);
  for (const BreakEven& k : r.break_even) {
    EXPECT_EQ(k.from, "law");
    const double wanted = page_law.break_even(393216, 80 * 393216, page_eff_n[k.arm], page_eff_d[k.arm]);
    EXPECT_NEAR(k.speed_up.value().value / wanted, 1, 0.02) << k.arm;
  }
}

TEST(Judge, WithoutALawSaysHowFarItIsOffAndGoesByTheCurves) {
  Results r = results(0.03);
  judge(r);
  EXPECT_TRUE(r.law.fitted);
  EXPECT_FALSE(r.law.holds);
  EXPECT_NE(r.law.why.find("the baseline is off it by"), std::string::npos);
  double worst = 0;
  for (const Residual& x : r.law.residuals)
    if (x.arm == r.baseline) worst = std::max(worst, std::abs(x.measured / x.fitted - 1));
  EXPECT_NEAR(r.law.worst, worst, 1e-12);
  for (const BreakEven& k : r.break_even) EXPECT_EQ(k.from, "tokens");
  EXPECT_EQ(page(r).find("<b>It does not hold here.</b>") != std::string::npos, true);
}

TEST(Judge, AnArmThatTheLawDoesNotDescribeHasNoFiguresOfIt) {
  Results r = results();
  for (auto& run : r.runs)
    if (run.arm == 2) run.loss = *run.loss * std::exp(0.03 * std::sin(double(3 * run.point)));
  judge(r);
  ASSERT_TRUE(r.law.holds) << r.law.why;
  ASSERT_EQ(r.law.arms.size(), 2u);
  EXPECT_TRUE(r.law.holds_for(r.law.arms[0]));
  EXPECT_FALSE(r.law.holds_for(r.law.arms[1]));
  std::int64_t outside = 0;
  for (const Residual& x : r.law.residuals) {
    if (x.arm != 2) continue;
    const auto [low, high] = r.gap(x.point, x.arm, r.judged())->gap.interval95;
    outside += std::abs(x.measured - x.fitted) >
               std::clamp((high - low) / 2, 1e-3 * x.measured, law_limit * x.measured);
  }
  EXPECT_GT(outside, 0);
  EXPECT_EQ(r.law.arms[1].outside, outside);
  for (const BreakEven& k : r.break_even) EXPECT_EQ(k.from, k.arm == 1 ? "law" : "tokens");
  const std::string html = page(r);
  EXPECT_NE(
      html.find(fmt::format("It holds here. It is outside the interval of {} of mxfp4's gaps", outside)),
      std::string::npos);
  EXPECT_NE(html.find(json_line(r.law.arms[0].parameters.value)), std::string::npos);
  EXPECT_EQ(html.find(json_line(r.law.arms[1].parameters.value)), std::string::npos);
}

TEST(Judge, LossesThatNoLawFitsAreSaidAndAllElseStands) {
  Results r = results();
  // Of runs that had hardly left their plateau: alpha goes to 300, and A beyond all numbers.
  constexpr std::int64_t parameters[] = {3104, 6960, 12352};
  constexpr std::int64_t tokens[] = {3136, 6208, 12416, 6976, 13952, 27840, 12352, 24704, 49408};
  constexpr double losses[9][2] = {{3.1907, 3.2013}, {3.0874, 3.0971}, {2.9531, 3.0173},
                                   {3.1119, 3.0917}, {3.0053, 2.9934}, {2.4738, 2.5362},
                                   {2.939, 2.8219},  {2.5971, 2.4524}, {2.405, 2.3194}};
  for (Point& point : r.points) point.parameters = parameters[point.size];
  for (std::size_t p = 0; p < 9; ++p) r.points[p].tokens = tokens[p];
  r.asked.select = {1, 2};
  for (auto& run : r.runs)
    if (run.seed < 3) run.loss = losses[run.point][run.seed - 1] * (1 + 0.01 * double(run.arm));
  judge(r);
  EXPECT_FALSE(r.law.fitted);
  EXPECT_NE(r.law.why.find("a fit is not finite"), std::string::npos) << r.law.why;
  EXPECT_FALSE(r.efficiencies.empty());
  EXPECT_NE(page(r).find("None was fitted: a fit is not finite"), std::string::npos);
}

TEST(Judge, EfficienciesAreOfEachArmAtEachPoint) {
  Results r = results();
  judge(r);
  std::set<std::pair<std::size_t, std::size_t>> different;
  for (const Efficiency& e : r.efficiencies) different.insert({e.arm, e.point});
  EXPECT_EQ(different.size(), 2u * 9);
  EXPECT_EQ(r.efficiencies.size(), 2u * 9);
}

TEST(Judge, AFamilyIsCorrectedTogether) {
  Results r = results();
  r.gaps.resize(2);
  r.gaps[0].gap.p = 0.03, r.gaps[1].gap.p = 0.04;
  r.gaps[0].verdict = r.gaps[1].verdict = Verdict::worse;
  judge(r);
  EXPECT_EQ(r.gaps[0].holm, 0.06);
  EXPECT_EQ(r.gaps[0].verdict, Verdict::not_resolved);
  EXPECT_EQ(r.gaps[0].reason, "p among its family is 0.06");
}

TEST(Judge, APointWhoseBaselineBlewUpCountsForNothing) {
  Results r = results();
  r.runs[0].spikes.push_back({.step = 9, .z = 8, .unlearned = 0.7});
  judge(r);
  for (const Efficiency& e : r.efficiencies) EXPECT_NE(e.point, 0u);
  for (const ContrastResult& c : r.contrast_results)
    EXPECT_EQ(c.reason, c.point == 0 ? "bf16: the loss of the baseline blew up" : "");
}

TEST(Judge, ASumWithAnArmThatBlewUpIsNotGiven) {
  Results r = results();
  r.asked.contrasts = {{"mxfp4 - mxfp8", {2, 1}, {1, -1}}};
  for (auto& run : r.runs)
    if (run.point == 0 && run.arm == 1) run.spikes.push_back({.step = 9, .z = 8, .unlearned = 0.7});
  judge(r);
  for (const ContrastResult& c : r.contrast_results)
    EXPECT_EQ(c.reason, c.point == 0 ? "mxfp8: the loss of mxfp8 blew up" : "");
}

TEST(Judge, WhatHasNoResultsYetCountsInItsFamilyAndWithdrawsNoVerdictLater) {
  Results r = results();
  r.gaps.resize(2);
  r.gaps[1].gap.p = 0.038, r.gaps[1].verdict = Verdict::worse;
  r.gaps[0].gap.p = 1e-6, r.gaps[0].reason = "1 of 3 pairs missing or failed";
  Results alone = r, confirmed = r;
  judge(r);
  EXPECT_EQ(r.gaps[1].holm, 2 * 0.038) << "an arm of which a seed is missing";
  EXPECT_EQ(r.gaps[1].verdict, Verdict::not_resolved);
  EXPECT_EQ(r.gaps[0].holm, 1);
  alone.gaps.clear();
  for (auto& run : alone.runs)
    if (run.arm == 1) run.loss.reset();
  alone.add_gaps();
  ASSERT_EQ(alone.gaps.size(), 18u) << "one for each arm that is planned";
  EXPECT_EQ(alone.gaps[0].gap.pairs, 0);
  EXPECT_EQ(alone.gaps[0].reason, "3 of 3 pairs missing or failed");
  alone.gaps[1].gap.p = 0.038;
  judge(alone);
  EXPECT_EQ(alone.gaps[1].holm, 2 * 0.038) << "an arm of which all is missing";
  EXPECT_NE(page(alone).find("9 gaps and"), std::string::npos);
  confirmed.gaps.erase(confirmed.gaps.begin());
  confirmed.asked.confirm = {4, 5}, confirmed.gaps[0].stage = Stage::confirm;
  confirmed.arms[2].chosen = true;
  judge(confirmed);
  EXPECT_EQ(confirmed.gaps[0].holm, 0.038) << "an arm that is not trained on these seeds";
  EXPECT_EQ(confirmed.gaps[0].verdict, Verdict::worse);
}

TEST(Judge, AContrastThatLacksRunsSaysSoAndCounts) {
  Results r = results();
  r.asked.contrasts.push_back({"mxfp8 - bf16", {1, 0}, {1, -1}});
  r.runs[8].loss.reset();  // mxfp4, seed 3, first point
  Results confirmed = r;
  judge(r);
  ASSERT_EQ(r.contrast_results.size(), 18u);
  const auto &lacking = r.contrast_results[0], &other = r.contrast_results[1];
  EXPECT_EQ(lacking.reason, "mxfp4: 1 of 3 runs missing or failed");
  EXPECT_EQ(lacking.gap.pairs, 0);
  EXPECT_TRUE(std::isinf(lacking.holm)) << "no test, no p";
  EXPECT_EQ(other.holm, 2 * other.gap.p);
  EXPECT_NE(page(r).find("<td>mxfp4: 1 of 3 runs missing or failed</td>"), std::string::npos);
  EXPECT_NE(page(r).find("18 gaps and 17 sums of arms were looked at"), std::string::npos);
  EXPECT_NE(results_table(r, 0).find("mxfp4: 1 of 3 runs missing or failed"), std::string::npos);

  confirmed.asked.confirm = {1, 2, 3};
  for (auto& run : confirmed.runs) run.stage = Stage::confirm;
  confirmed.arms[0].chosen = confirmed.arms[1].chosen = true;
  judge(confirmed);
  EXPECT_EQ(confirmed.contrast_results[0].reason, "mxfp4: not chosen on the first seeds");
  EXPECT_EQ(confirmed.contrast_results[1].holm, confirmed.contrast_results[1].gap.p)
      << "the only one trained";
}

TEST(Judge, ABreakEvenSpeedUpIsOfTheLargestSizeOrThereIsNone) {
  Results r = results(0.03);  // without a law
  for (auto& run : r.runs)
    if (r.points[run.point].size == 2) run.spikes.push_back({.step = 9, .z = 8, .unlearned = 0.7});
  judge(r);
  EXPECT_FALSE(r.efficiencies.empty());
  EXPECT_TRUE(r.break_even.empty());
}

TEST(Judge, OneSeedHasNothingToDraw) {
  Results r = results();
  r.asked.select = {1};
  judge(r);
  ASSERT_TRUE(r.law.fitted) << r.law.why;
  EXPECT_EQ(r.law.draws, 0);
  EXPECT_NE(page(r).find("A size with one seed has no intervals."), std::string::npos);
}

TEST(Judge, OneSeedIsHeldToTheLawsLimit) {
  for (const double wave : {0.0, 0.03}) {
    Results r = results();
    r.asked.select = {1};
    for (auto& run : r.runs)
      if (run.arm == 2) run.loss = *run.loss * std::exp(wave * std::sin(double(3 * run.point)));
    judge(r);
    EXPECT_EQ(r.law.holds_for(r.law.arms[1]), wave == 0) << r.law.arms[1].outside;
  }
}

// Against SciPy 1.17.1's ttest_1samp of the difference of differences.
TEST(Judge, ADifferenceOfDifferencesIsSciPys) {
  Results r;
  r.asked.select = {1, 2, 3, 4}, r.asked.tolerance = 0.001;
  r.asked.contrasts = {{"a - b - c + d", {0, 1, 2, 3}, {1, -1, -1, 1}}};
  r.arms.resize(4), r.points.resize(1);
  const double losses[4][4] = {
      {.71, .69, .74, .70}, {.73, .70, .75, .73}, {.70, .69, .73, .70}, {.71, .68, .74, .71}};
  for (std::size_t arm = 0; arm < 4; ++arm)
    for (std::size_t k = 0; k < 4; ++k)
      r.runs.push_back({.arm = arm, .seed = k + 1, .state = "finished", .loss = losses[arm][k]});
  judge(r);
  ASSERT_EQ(r.contrast_results.size(), 1u);
  const PairedGap& gap = r.contrast_results[0].gap;
  EXPECT_NEAR(gap.mean, -0.0125, 1e-9);
  EXPECT_NEAR(gap.p, 0.07960498081790612, 1e-9);
  EXPECT_NEAR(gap.interval95[0], -0.027734801808288072, 1e-9);
  EXPECT_NEAR(gap.interval95[1], 0.002734801808288107, 1e-9);
}

}  // namespace
}  // namespace mxtape::referee::test
