#include "program/plot/plot.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/plot/gnuplot.h"
#include "program/records/metrics.h"
#include "tests/program/only_path.h"
#include "tests/program/program.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

using test::contains;

RunLog log_of(const std::string& name, std::int64_t first, std::int64_t last, double offset) {
  RunLog log{.name = name, .train = {}, .validation = {}, .floor = {}};
  for (auto step = first; step <= last; ++step) {
    log.train.push_back({step, 2 + offset + (step % 2 ? 0.5 : -0.5)});
    if (step % 10 == 0) log.validation.push_back({step, 2 + offset + 0.25});
  }
  return log;
}

TEST(Difference, IsOfTheSameStepsOnlyInWindowsOfTheSameSteps) {
  const RunLog base = log_of("base", 1, 40, 0);
  const RunDifference d = difference(log_of("run", 6, 43, 0.125), base, 5);
  EXPECT_EQ(d.shared_steps, 35);
  ASSERT_EQ(d.training.size(), 7u) << "6 to 10, 11 to 15, ... 36 to 40";
  EXPECT_EQ(d.training.front().step, 8);
  EXPECT_EQ(d.training.back().step, 38);
  for (const auto& point : d.training) EXPECT_EQ(point.loss, 0.125) << "what both jump about is gone";
  ASSERT_EQ(d.validation.size(), 4u);
  EXPECT_EQ(d.validation.back().step, 40);
  EXPECT_EQ(d.validation.back().loss, 0.125);
  EXPECT_EQ(d.validation_loss, 2.375);
  EXPECT_EQ(d.base_validation_loss, 2.25);
}

TEST(Difference, ItsLastWindowIsWholeWhereverTheStepsEnd) {
  RunLog run = log_of("run", 1, 43, 0);
  for (auto& point : run.train) point.loss += double(point.step);
  const RunDifference d = difference(run, log_of("base", 1, 41, 0), 4);
  ASSERT_EQ(d.training.size(), 11u) << "1, 2 to 5, ... 38 to 41";
  EXPECT_EQ(d.training.front().loss, 1);
  EXPECT_EQ(d.training.back().loss, 39.5);
  EXPECT_EQ(d.training.back().step, 39);
}

TEST(Difference, OfRunsWithoutACommonStepIsAnErrorThatNamesTheSteps) {
  try {
    difference(log_of("late", 50, 60, 0), log_of("base", 1, 40, 0), 5);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_STREQ(
        e.what(),
        "plot: late and the base base share no step: late has steps 50 to 60, base has steps 1 to 40");
  }
}

TEST(Difference, TheTableGivesTheLastGaps) {
  RunLog unvalidated = log_of("new", 1, 5, 0.5);
  const RunLog base = log_of("base", 1, 40, 0);
  const std::vector runs{difference(log_of("mxfp4", 1, 40, 0.0125), base, 5),
                         difference(unvalidated, base, 5)};
  const std::string table = difference_table(runs, 5).text();
  EXPECT_TRUE(contains(table, "losses above those of base\n")) << table;
  EXPECT_TRUE(contains(table, "mxfp4       40      2.2625  2.2500  +0.0125       +0.0125\n")) << table;
  EXPECT_TRUE(contains(table, "new          5           -       -        -       +0.5000\n")) << table;
}

TEST(Difference, TheScriptHasAZeroLineTheLastGapInTheKeyAndARangeOfTheGaps) {
  const RunLog base = log_of("bf16", 1, 40, 0);
  const std::vector runs{difference(log_of("a \"b\"", 1, 40, 0.0125), base, 5)};
  const std::string script = difference_script(runs, 5, "svg", "out.svg", "");
  EXPECT_TRUE(contains(script, "title \"a \\\"b\\\"  +0.0125\"")) << script;
  EXPECT_TRUE(contains(script, "\n  0 with lines")) << script;
  EXPECT_TRUE(contains(script, "0: bf16, the base")) << script;
  EXPECT_TRUE(contains(script, "set title \"a \\\"b\\\" less bf16\"")) << script;
  const auto at = script.find("set yrange [") + 12;
  const double low = std::stod(script.substr(at)), high = std::stod(script.substr(script.find(':', at) + 1));
  EXPECT_LT(low, 0);
  EXPECT_GT(low, -0.01);
  EXPECT_GT(high, 0.0125);
  EXPECT_LT(high, 0.02);
}

/// Two runs beside each other, as `mxtape train` leaves them.
class DifferenceCommand : public testing::Test {
 protected:
  DifferenceCommand() {
    for (const auto& [name, offset] : {std::pair("base", 0.0), {"run", 0.0125}}) {
      std::filesystem::create_directories(folder_ / name);
      Metrics metrics(folder_ / name / "metrics.jsonl", folder_ / name / "events", 0, "");
      for (std::int64_t step = 1; step <= 20; ++step)
        metrics.step({.step = step, .loss = 2 + offset, .milliseconds = 1, .tokens_per_second = 1});
      metrics.validation(20, 2.5 + offset, {});
    }
  }
  const TemporaryFolder folder_;
};

TEST_F(DifferenceCommand, DrawsBothPicturesLeavesTheBaseOutAndGivesTheSameAsJson) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  auto r = test::run_program(folder_.path(), {"plot", "--difference", "base", "base", "run"});
  ASSERT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "run       20      2.5125  2.5000  +0.0125       +0.0125")) << r.output;
  EXPECT_FALSE(contains(r.output, "\nbase ")) << r.output;
  EXPECT_TRUE(contains(r.output, "wrote difference.svg and difference.png")) << r.output;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "difference.svg"));
  r = test::run_program(folder_.path(), {"plot", "--json", "--difference", "base", "run", "--out", "d"});
  ASSERT_EQ(r.code, 0) << r.output;
  const auto json = nlohmann::json::parse(r.output);
  EXPECT_EQ(json["base"]["name"], "base");
  ASSERT_EQ(json["differences"].size(), 1u);
  EXPECT_EQ(json["differences"][0]["validation_gap"].get<double>(), 2.5125 - 2.5);
  EXPECT_EQ(json["differences"][0]["training"].size(), 20u);
  EXPECT_EQ(json["pictures"], (std::vector<std::string>{"d.svg", "d.png"}));
}

TEST_F(DifferenceCommand, APictureIsNotOfTheUsersSettingsAndHasTextThatCanBeRead) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::setenv("HOME", folder_.path().c_str(), 1);
  write_atomically(folder_ / ".gnuplot", std::string_view("set logscale y\n"));
  const auto draws = [&](std::vector<std::string> words) {
    const auto r = test::run_program(folder_.path(), words);
    EXPECT_EQ(r.code, 0) << r.output;
    return read_whole_text(folder_ / "loss.svg");
  };
  const std::string with = draws({"plot", "base", "run"});
  std::filesystem::remove(folder_ / ".gnuplot");
  EXPECT_EQ(draws({"plot", "base", "run"}), with);
  const std::string odd = draws({"plot", "base", "--title", "a\xff\x01"});
  EXPECT_NE(odd.find("a\uFFFD&lt;U+0001>"), std::string::npos) << odd;
  EXPECT_EQ(odd.find('\xff'), std::string::npos);
  home.empty() ? ::unsetenv("HOME") : ::setenv("HOME", home.c_str(), 1);
}

TEST_F(DifferenceCommand, LossesAsJsonNameEachRunsResult) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const auto r = test::run_program(folder_.path(), {"plot", "base", "run", "--json"});
  ASSERT_EQ(r.code, 0) << r.output;
  const auto json = nlohmann::json::parse(r.output);
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][1]["validation_loss"], 2.5125);
  EXPECT_TRUE(json["runs"][1]["floor"].is_null());
  EXPECT_FALSE(json["runs"][1]["floor_reason"].get<std::string>().empty());
}

TEST_F(DifferenceCommand, WantsARunBesideTheBase) {
  const auto r = test::run_program(folder_.path(), {"plot", "--difference", "base", "./base"});
  EXPECT_EQ(r.code, int(ExitCode::usage));
  EXPECT_TRUE(contains(r.output, "--difference base: want another run")) << r.output;
  EXPECT_EQ(test::run_program(folder_.path(), {"plot", "--difference", "run"}).code, int(ExitCode::usage));
  EXPECT_EQ(test::run_program(folder_.path(), {"plot", "--difference", "gone", "run"}).code,
            int(ExitCode::data));
}

TEST_F(DifferenceCommand, WithoutGnuplotTheJsonIsStillOneDocumentAndTheCodeSaysIt) {
  const test::OnlyPath without_gnuplot(folder_.path());
  const auto r = test::run_program(folder_.path(), {"plot", "base", "run", "--json"});
  EXPECT_EQ(r.code, int(ExitCode::resource));
  const auto end = r.output.rfind("}\n");
  ASSERT_NE(end, std::string::npos) << r.output;
  EXPECT_EQ(nlohmann::json::parse(r.output.substr(0, end + 1))["pictures"], nlohmann::json::array());
  EXPECT_TRUE(contains(r.output.substr(end), "mxtape: plot: gnuplot was not found")) << r.output;
}

}  // namespace
}  // namespace mxtape
