#include "program/plot/plot.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/plot/gnuplot.h"
#include "program/records/metrics.h"
#include "recipes/recipe.h"
#include "tests/program/only_path.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

class PlotTest : public testing::Test {
 protected:
  std::filesystem::path write_run(const std::string& name, double offset, std::optional<double> floor) {
    const auto run = folder_ / name;
    std::filesystem::create_directories(run);
    Metrics metrics(run / "metrics.jsonl", run / "events", 0, "");
    for (std::int64_t step = 1; step <= 320; ++step) {
      metrics.step({.step = step,
                    .loss = offset + 2.0 / double(step),
                    .norm = 1,
                    .learning_rate = 1e-3,
                    .milliseconds = double(step),
                    .tokens_per_second = 1e5 / double(step)});
      if (step % 80 == 0) metrics.validation(step, offset + 2.5 / double(step), floor);
    }
    return run;
  }

  static void draw(const std::vector<RunLog>& runs, const std::filesystem::path& stem,
                   const std::string& title) {
    gnuplot::write_pictures(stem, [&](const std::string& terminal, const std::filesystem::path& output) {
      return gnuplot_script(runs, terminal, output, title);
    });
  }

  const TemporaryFolder folder_;
};

TEST_F(PlotTest, ReadsARunBackAsItWasWritten) {
  const RunLog log = read_run_log(write_run("a", 1, 0.75));
  EXPECT_EQ(read_run_log(folder_ / "a/.").name, log.name);
  EXPECT_EQ(log.name, "a");
  ASSERT_EQ(log.train.size(), 320u);
  EXPECT_EQ(log.train[1].loss, 2.0);
  ASSERT_EQ(log.validation.size(), 4u);
  EXPECT_EQ(log.validation.back().step, 320);
  EXPECT_EQ(log.floor, 0.75);
  EXPECT_EQ(log.median_milliseconds, 160.5);
}

TEST_F(PlotTest, DrawsTheStepsThatARollbackTookBackFromTheStepThatItLedTo) {
  const auto run = write_run("a", 1, {});
  std::ofstream(run / "metrics.jsonl", std::ios::app)
      << R"({"step":300,"event":"rollback","number":1,"from":303,"changed":[]})"
      << "\n";
  std::ofstream(run / "metrics.rollback_1.jsonl") << R"({"step":301,"loss":7.5})"
                                                  << "\n"
                                                  << R"({"step":302,"loss":8.5})"
                                                  << "\n"
                                                  << R"({"step":303,"event":"diverged","reason":""})"
                                                  << "\n";
  const RunLog log = read_run_log(run);
  ASSERT_EQ(log.taken_back.size(), 1u);
  ASSERT_EQ(log.taken_back[0].size(), 3u);
  EXPECT_EQ(log.taken_back[0][0].loss, log.train[299].loss);
  EXPECT_EQ(log.taken_back[0][2].loss, 8.5);
  const std::vector<RunLog> runs{log};
  const std::string script = gnuplot_script(runs, "svg", "out", "");
  EXPECT_NE(script.find("$taken_back0_0 << EOD\n"), std::string::npos);
  EXPECT_NE(script.find("from the ring on: "), std::string::npos);
  EXPECT_NE(summary_table(runs).text().find(
                "a: step 303 or its validation was not finite; the run went back to step 300"),
            std::string::npos);
  EXPECT_EQ(
      gnuplot_script(std::vector{read_run_log(write_run("b", 1, {}))}, "svg", "out", "").find("taken back"),
      std::string::npos);
}

TEST_F(PlotTest, ReadsARunThatCrashedInTheMiddleOfALineButNoAlteredOne) {
  const auto file = write_run("a", 1, {}) / "metrics.jsonl";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4);
  EXPECT_EQ(read_run_log(file).validation.size(), 3u);
  const auto reason = [&](const std::string& text) -> std::string {
    write_atomically(file, text);
    try {
      read_run_log(file);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data);
      return e.what();
    }
  };
  const std::string text = read_whole_text(file);
  EXPECT_NE(reason("!" + text.substr(1)).find("metrics.jsonl:1:"), std::string::npos);
  const std::string first = text.substr(0, text.find('\n') + 1);
  EXPECT_NE(reason(first + text).find("metrics.jsonl:2: step 1 after step 1"), std::string::npos);
}

TEST_F(PlotTest, TheTableGivesLossFloorAndGapOfEachRun) {
  const std::vector runs{read_run_log(write_run("bf16", 1, 0.75)), read_run_log(write_run("mxfp4", 1.5, {}))};
  const std::string table = summary_table(runs).text();
  EXPECT_NE(table.find("bf16     320      1.0078      2.7396  0.7500  0.2578    160.5    623\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("mxfp4    320      1.5078      4.5168       -       -"), std::string::npos) << table;
}

TEST_F(PlotTest, ATableThatIsTooWideLeavesOutSpeedThenPerplexityAndKeepsLossAndGap) {
  const std::vector runs{read_run_log(write_run(std::string(30, 'n'), 1, 0.75))};
  const auto head_at = [&](std::size_t width) {
    const std::string table = summary_table(runs).text(width);
    return table.substr(30, table.find('\n') - 30);
  };
  EXPECT_EQ(head_at(0), "  steps  validation  perplexity   floor     gap  ms/step  tok/s");
  EXPECT_EQ(head_at(80), "  steps  validation  perplexity   floor     gap");
  EXPECT_EQ(head_at(76), "  steps  validation   floor     gap");
  EXPECT_EQ(head_at(10), "  steps  validation     gap") << "not narrower than what must be seen";
}

TEST_F(PlotTest, NoTwoOfThirtyRunsHaveTheSameColourAndDashes) {
  std::set<std::string> lines, marked;
  for (std::size_t i = 0; i < 30; ++i) lines.insert(gnuplot::line_of(i));
  for (std::size_t i = 0; i < 150; ++i) marked.insert(gnuplot::line_of(i) + gnuplot::mark_of(i));
  EXPECT_EQ(lines.size(), 30u);
  EXPECT_EQ(marked.size(), 150u);
  std::vector<RunLog> runs(8, read_run_log(write_run("a", 1, {})));
  const std::string script = gnuplot_script(runs, "svg", "out", "");
  for (const std::size_t i : {0, 6})
    EXPECT_NE(script.find(gnuplot::line_of(i) + " title \"a  1.0078\""), std::string::npos) << script;
  EXPECT_NE(script.find("set key below"), std::string::npos) << "off the curves";
}

TEST_F(PlotTest, RunsOnOtherDataAreToldApart) {
  const auto with_recipe = [&](const std::string& name, const char* file, std::int64_t vocabulary) {
    const auto run = write_run(name, 1, {});
    Recipe recipe;
    recipe.name = name;
    recipe.data.file = file;
    recipe.model.vocabulary = vocabulary;
    write_atomically(run / "recipe.toml", to_toml(recipe));
    return run.string();
  };
  const std::string a = with_recipe("a", "data/tales.h5", 60), b = with_recipe("b", "data/tales.h5", 60),
                    c = with_recipe("c", "data/tales.h5", 61), d = with_recipe("d", "other.h5", 60),
                    bare = write_run("bare", 1, {}).string();
  using Texts = std::vector<std::string>;
  EXPECT_EQ(data_beside_names({a, b, bare}), (Texts{"", "", ""}));
  EXPECT_EQ(remark_on_data({"", ""}), "");
  EXPECT_EQ(data_beside_names({bare, a, c, d + "/metrics.jsonl"}),
            (Texts{"", " (tales.h5, 60 tokens)", " (tales.h5, 61 tokens)", " (other.h5, 60 tokens)"}));
  EXPECT_NE(remark_on_data(data_beside_names({a, d})), "");
}

TEST_F(PlotTest, TheScriptDrawsTrainingValidationAndEachFloorOnce) {
  const std::vector runs{read_run_log(write_run("a \"b\" c", 1, 0.75)),
                         read_run_log(write_run("d", 1.5, 0.75))};
  const std::string script = gnuplot_script(runs, "svg", "out.svg", "two runs");
  EXPECT_NE(script.find("title \"a \\\"b\\\" c  1.0078\""), std::string::npos)
      << "names cannot leave their quotes";
  EXPECT_NE(script.find("means of 2 steps"), std::string::npos);
  const auto first = script.find("floor of the data  0.7500");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(script.find("floor of the data", first + 1), std::string::npos);
  EXPECT_NE(script.find("loss [nats per token]"), std::string::npos);
}

TEST_F(PlotTest, DrawsSvgAndPng) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const std::vector runs{read_run_log(write_run("a", 1, 0.75)), read_run_log(write_run("b", 1.5, {}))};
  draw(runs, folder_ / "loss", "two runs");
  const auto begins_with = [&](const char* name, std::string_view text) {
    const auto bytes = read_whole(folder_ / name);
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(text);
  };
  EXPECT_TRUE(begins_with("loss.svg", "<?xml"));
  EXPECT_TRUE(begins_with("loss.png", "\x89PNG"));
}

TEST_F(PlotTest, APictureThatCannotBeWrittenIsAnErrorAndLeavesNothing) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const std::vector runs{read_run_log(write_run("a", 1, 0.75))};
  std::filesystem::create_directories(folder_ / "pictures/loss.svg");
  EXPECT_THROW(draw(runs, folder_ / "pictures/loss", ""), Error);
  const std::filesystem::directory_iterator names(folder_ / "pictures"), end;
  EXPECT_EQ(std::distance(names, end), 1);
}

TEST_F(PlotTest, APictureThatGnuplotCouldNotFinishIsAnErrorAndGetsNoName) {
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const std::vector runs{read_run_log(write_run("a", 1, 0.75))};
  const rlimit small{.rlim_cur = 4000, .rlim_max = RLIM_INFINITY};
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto before =
      std::signal(SIGXFSZ, SIG_IGN);  // as in main(): gnuplot inherits it and ends with success
  setrlimit(RLIMIT_FSIZE, &small);
  std::string text;
  try {
    draw(runs, folder_ / "loss", "");
  } catch (const Error& e) {
    text = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_NE(text.find("gnuplot's picture ends after 4000 bytes"), std::string::npos) << text;
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a"});
}

TEST_F(PlotTest, WithoutGnuplotSaysHowToInstallIt) {
  const test::OnlyPath without_gnuplot(folder_.path());
  const std::vector runs{read_run_log(write_run("a", 1, {}))};
  std::string text;
  try {
    draw(runs, folder_ / "loss", "");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    text = e.what();
  }
  EXPECT_NE(text.find("sudo apt-get install gnuplot-nox"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "loss.svg"));
}

}  // namespace
}  // namespace mxtape
