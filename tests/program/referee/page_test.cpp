// The page and the tables that show what follows from losses that a known law made.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "program/referee/shown.h"
#include "tests/program/referee/judged_results.h"
#include "tests/program/sweep/html_check.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::referee::test {
namespace {

TEST(RefereePage, IsWellFormedAsksForNothingAndHoldsItsNumbers) {
  Results r = results();
  r.tunes = {{.arm = 2, .value = 0.004, .loss = 1.9, .runs = 2, .best = true, .edge = true}};
  r.not_run = {"98304 x 80: seeds 4 & 5"}, r.commit = r.data_hash = "<commit & hash>";
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
        "data hash &lt;commit &amp; hash&gt;; commit &lt;commit &amp; hash&gt;",
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
  const auto of_mxfp8 =
      std::ranges::find_if(r.efficiencies, [](const Efficiency& e) { return e.point == 8 && e.arm == 1; });
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

TEST(RefereePage, SaysWhatVerdictsWaitFor) {
  Results r = results();
  r.asked.confirm = {4, 5}, r.runs[2].loss.reset(), r.runs[8].loss.reset();
  judge(r);
  const std::string waits = "verdicts wait for the runs of seeds 4, 5";
  EXPECT_NE(results_table(r, 0).find(waits), std::string::npos) << results_table(r, 0);
  EXPECT_NE(page(r).find(waits), std::string::npos);
  EXPECT_EQ(page(r).find("two finished seeds"), std::string::npos);
  r.asked.confirm.clear();
  EXPECT_NE(results_table(r, 0).find("it takes two finished seeds"), std::string::npos);
}

TEST(RefereePage, RunsNoCommandThatATextOfItsResultsAsksOfGnuplot) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  Results r = results();
  r.asked.tuned_key = fmt::format("`touch {}`", (folder / "there").string());
  r.tunes = {{.arm = 2, .value = 0.002, .loss = 2}, {.arm = 2, .value = 0.004, .loss = 1.9}};
  const std::string html = page(r);
  EXPECT_NE(html.find("data:image/svg+xml", html.find("<h2>Learning rates</h2>")), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "there"));
}

TEST(RefereePage, AnArmMayBeCalledADash) {
  Results r = results();
  r.arms[1].name = "-";
  EXPECT_NE(page(r).find("<td>-</td>"), std::string::npos);
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
