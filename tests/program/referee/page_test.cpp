// What follows from losses that a known law made, and the page that shows it.
#include "program/sweep/results.h"

#include <gtest/gtest.h>

#include <cmath>

#include "program/referee/charts.h"
#include "program/referee/tables.h"
#include "program/show/report.h"
#include "tests/program/referee/law_losses.h"
#include "tests/program/sweep/html_check.h"

namespace mxtape::referee::test {
namespace {

constexpr ScalingLaw page_law{.A = 100, .alpha = 0.5, .B = 300, .beta = 0.45, .gamma = 0.9, .floor = 0.3238};
constexpr std::array page_eff_n{1.0, 0.95, 0.8}, page_eff_d{1.0, 0.9, 0.6};

/// Three arms, two of them a family, with three seeds at three sizes and lengths. A seed adds its share to
/// all losses of a point, and a tenth of it more to each arm's, in turn with the arms. `bend`: what the
/// baseline's losses have of a wave that no law has.
Results results(double bend = 0) {
  Results r;
  r.asked.name = "four <bits>", r.asked.baseline = "bf16", r.asked.tolerance = 0.001;
  r.asked.select = {1, 2, 3}, r.asked.lengths = {20, 40, 80};
  r.asked.contrasts = {{"mxfp4 - bf16 - mxfp8 + bf16", {2, 0, 1, 0}, {1, -1, -1, 1}}};
  for (const char* name : {"bf16", "mxfp8", "mxfp4"}) {
    Arm arm;
    arm.name = name, arm.family = name[0] == 'm' ? "mx" : "", arm.bits = 4.25;
    arm.differences = {fmt::format("precision.forward: bf16 -> {}", name)};
    r.arms.push_back(arm);
  }
  for (const std::int64_t n : {24576, 98304, 393216}) {
    for (const double ratio : r.asked.lengths)
      r.points.push_back({.name = fmt::format("{} x {}", n, ratio),
                          .size = r.sizes.size(),
                          .parameters = n,
                          .tokens_per_parameter = ratio,
                          .tokens = std::int64_t(ratio) * n,
                          .steps = 100});
    r.sizes.push_back({.name = fmt::format("n{}", n), .parameters = n});
  }
  r.floor = page_law.floor, r.complete = true;
  for (std::size_t p = 0; p < r.points.size(); ++p) {
    const Point& point = r.points[p];
    for (std::size_t arm = 0; arm < 3; ++arm)
      for (const std::uint64_t seed : r.asked.select) {
        const double share = 0.002 * (double(seed) - 2) * (1 + 0.1 * double((seed + arm) % 3));
        Run run{.point = p, .arm = arm, .seed = seed, .state = "finished"};
        run.loss =
            loss(page_law, double(point.parameters), double(point.tokens), page_eff_n[arm], page_eff_d[arm]) *
            std::exp(share + bend * std::sin(double(3 * p)));
        run.telemetry = Telemetry{{"fprop.x"}, {1 - page_eff_d[arm]}};
        r.runs.push_back(run);
      }
    for (const std::size_t arm : {1u, 2u}) {
      std::vector<double> gaps;
      for (std::size_t k = 0; k < 3; ++k)
        gaps.push_back(*r.losses(p, arm, Stage::select)[k] - *r.losses(p, 0, Stage::select)[k]);
      Gap gap{.point = p, .arm = arm, .gap = paired_gap(gaps, r.asked.tolerance)};
      gap.verdict = gap.gap.verdict;
      r.gaps.push_back(gap);
    }
  }
  return r;
}

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
  for (const BreakEven& k : r.break_even) EXPECT_EQ(k.from, "tokens");
  EXPECT_EQ(page(r).find("<b>It does not hold here.</b>") != std::string::npos, true);
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
  r.asked.select = {1, 2}, r.floor = 0.3196;
  for (auto& run : r.runs)
    if (run.seed < 3) run.loss = losses[run.point][run.seed - 1] * (1 + 0.01 * double(run.arm));
  judge(r);
  EXPECT_FALSE(r.law.fitted);
  EXPECT_NE(r.law.why.find("a fit is not finite"), std::string::npos) << r.law.why;
  EXPECT_FALSE(r.efficiencies.empty());
  EXPECT_NE(page(r).find("None was fitted: a fit is not finite"), std::string::npos);
}

TEST(Judge, EfficienciesAreOfEachSizeOverTokensAndOfEachLengthOverSizes) {
  Results r = results();
  judge(r);
  std::size_t along[2] = {0, 0};
  for (const Efficiency& e : r.efficiencies) ++along[std::size_t(e.along)];
  EXPECT_EQ(along[0], 2u * 9);
  EXPECT_EQ(along[1], 2u * 9);
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
  for (const ContrastResult& c : r.contrast_results) EXPECT_NE(c.point, 0u);
}

TEST(Judge, ABreakEvenSpeedUpIsOfTheLargestSizeOrThereIsNone) {
  Results r = results(0.03);  // without a law
  for (auto& run : r.runs)
    if (r.points[run.point].size == 2) run.spikes.push_back({.step = 9, .z = 8, .unlearned = 0.7});
  judge(r);
  EXPECT_FALSE(r.efficiencies.empty());
  EXPECT_TRUE(r.break_even.empty());
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

TEST(RefereePage, IsWellFormedAsksForNothingAndHoldsItsNumbers) {
  Results r = results();
  r.tunes = {{.arm = 2, .value = 0.004, .loss = 1.9, .runs = 2, .best = true, .edge = true}};
  r.not_run = {"98304 x 80: seeds 4 & 5"};
  judge(r);
  const std::string html = page(r);
  EXPECT_EQ(mxtape::test::html_fault(html), "");
  for (const char* outside : {"http", "href", "url(", "@import", "<script", "<link", "<iframe"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  for (auto at = html.find("src="); at != std::string::npos; at = html.find("src=", at + 1))
    EXPECT_EQ(html.substr(at, 10), "src=\"data:") << "a picture in the page itself";
  const auto holds = [&](double value) {
    EXPECT_NE(html.find(json_line(value)), std::string::npos) << value;
  };
  for (const Gap& gap : r.gaps) holds(gap.gap.mean);
  for (const LawArm& arm : r.law.arms) holds(arm.parameters.value), holds(arm.tokens.interval95.value()[1]);
  for (const double x : {r.law.A, r.law.alpha, r.law.B, r.law.beta, r.law.gamma}) holds(x);
  for (const BreakEven& k : r.break_even) holds(k.speed_up.value().value);
  for (const char* part :
       {"prefers-color-scheme: dark", "@media print", "four &lt;bits&gt;", "seeds 4 &amp; 5",
        "mxfp4: 0.004 is the best, and the end of the list", "<h2>The law</h2>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(RefereeTables, HaveEachPointsEfficiencyAndAtTheLargestWhatTheLawSays) {
  Results r = results();
  judge(r);
  const Table table = verdicts(r, 0, r.points.size(), Stage::select, true);
  ASSERT_EQ(table.rows(), 27u);
  const auto column = [&](std::string_view heading) {
    return std::size_t(std::ranges::find(table.columns(), heading, &Table::Column::heading) -
                       table.columns().begin());
  };
  const auto text = [&](std::size_t row, std::string_view heading) {
    return *table.cell(row, column(heading)).text;
  };
  for (std::size_t row = 0; row < 27; ++row) {
    const bool baseline = row % 3 == 0;
    EXPECT_EQ(text(row, "verdict") == "baseline", baseline);
    EXPECT_EQ(text(row, "effN") == "-", baseline || row < 24) << row;
  }
  EXPECT_EQ(text(25, "arm"), "mxfp8") << "the smaller gap first";
  const auto of_mxfp8 = std::ranges::find_if(r.efficiencies, [](const Efficiency& e) {
    return e.point == 8 && e.arm == 1 && e.along == Efficiency::Along::tokens;
  });
  EXPECT_TRUE(text(25, "efficiency").starts_with(fmt::format("{:.3f} (", of_mxfp8->ratio.value().value)));
}

TEST(RefereeTables, SayASpikeOfATrunkOnce) {
  Results r = results();
  for (const std::size_t run : {0u, 9u, 27u})  // two lengths of one size, and another size
    r.runs[run].spikes = {{.step = 7, .z = 8.5}};
  r.runs[9].spikes.push_back({.step = 90, .z = 9});
  EXPECT_EQ(spike_lines(r), (std::vector<std::string>{"24576 x 20 bf16: seed 1 at step 7",
                                                      "24576 x 40 bf16: seed 1 at step 90",
                                                      "98304 x 20 bf16: seed 1 at step 7"}));
}

TEST(RefereePage, ShowsARefereeOfWhichNothingRan) {
  Results r = results();
  r.runs.clear(), r.gaps.clear(), r.complete = false;
  judge(r);
  const std::string html = page(r);
  EXPECT_EQ(mxtape::test::html_fault(html), "");
  EXPECT_NE(html.find("Not all runs are finished"), std::string::npos);
}

/// Relative luminance of "RRGGBB" (WCAG 2.1).
double luminance(std::string_view colour) {
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(std::string(colour.substr(2 * i, 2)), nullptr, 16) / 255.0;
    sum += std::array{0.2126, 0.7152, 0.0722}[i] *
           (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

TEST(RefereePage, EightColoursStandOutFromWhite) {
  for (std::size_t i = 0; i < colours.size(); ++i) {
    EXPECT_GE(1.05 / (luminance(colours[i]) + 0.05), 3) << colours[i];
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(colours[i], colours[k]);
  }
}

}  // namespace
}  // namespace mxtape::referee::test
