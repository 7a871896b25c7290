// mxtape sweep as a user runs it: trained end to end, stopped, killed, repeated, and with runs that fail.
#include <nlohmann/json.hpp>

#include "program/metrics/run_log.h"
#include "program/sweep/run_record.h"
#include "tests/program/program_fixture.h"
#include "tests/program/sweep/html_check.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class SweepCommand : public ProgramTest {
 protected:
  SweepCommand() { write_sweep("f32", 12); }

  /// Three arms on tiny.toml; the baseline is `first`.
  void write_sweep(const std::string& first, int steps, const std::string& more = "") const {
    write_atomically(folder_ / "ask.toml",
                     fmt::format("base = \"tiny.toml\"\nbaseline = \"{}\"\nseeds = 2\ntolerance = 0.5\n"
                                 "[set]\ntrain.steps = {}\ntrain.eval_every = 4\n"
                                 "[[arm]]\nname = \"f32\"\nrecipe = \"f32.toml\"\n"
                                 "[[arm]]\nname = \"4 bit\"\n"
                                 "[[arm]]\nname = \"nearest\"\nset.precision.gradients = \"mxfp4\"\n{}",
                                 first, steps, more));
    write_atomically(folder_ / "f32.toml",
                     "[precision]\nweights = \"f32\"\nactivations = \"f32\"\ngradients = \"f32\"\n");
  }
  Json results(const std::string& out = "runs/ask") const {
    return Json::parse(read_whole_text(folder_ / out / "results.json"));
  }
  static const Json& arm(const Json& results, const std::string& name) {
    for (const Json& arm : results.at("arms"))
      if (arm.at("name") == name) return arm;
    throw std::runtime_error("no arm " + name);
  }
  /// All losses, by arm and seed.
  static std::vector<double> losses(const Json& results) {
    std::vector<double> all;
    for (const Json& arm : results.at("arms"))
      for (const Json& run : arm.at("runs")) all.push_back(run.at("loss").get<double>());
    return all;
  }
};

TEST_F(SweepCommand, TrainsEveryArmOnEverySeedAndReportsThePairedGaps) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("3 arms x 2 seeds, 12 steps; 6 of 6 runs to do"));
  EXPECT_TRUE(says("[6/6]"));
  const Json json = results();
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["steps"], 12);
  ASSERT_EQ(losses(json).size(), 6u);
  const Json &base = arm(json, "f32"), &nearest = arm(json, "nearest");
  EXPECT_TRUE(base["gap"].is_null());
  EXPECT_EQ(base["gap_reason"], "it is the baseline");
  double mean = 0;
  for (int k = 0; k < 2; ++k) {
    const Json& entry = nearest["runs"][std::size_t(k)];
    EXPECT_EQ(entry["seed"], k + 1);
    EXPECT_GT(entry["ms"].get<double>(), 0);
    EXPECT_GT(entry["peak_mib"].get<double>(), 1);
    // The run is one that other commands understand, and the loss is what it measured.
    const RunLog log = read_run_log(folder_ / entry["folder"].get<std::string>());
    EXPECT_EQ(log.validation.back().loss, entry["loss"].get<double>());
    EXPECT_EQ(log.last_step(), 12);
    mean += (entry["loss"].get<double>() - base["runs"][std::size_t(k)]["loss"].get<double>()) / 2;
  }
  EXPECT_NEAR(nearest["gap"]["mean"].get<double>(), mean, 1e-15);
  EXPECT_EQ(run({"info", "runs/ask/runs/4 bit/2"}), 0) << output_;
  EXPECT_TRUE(says("seed        2") || says("seed 2")) << output_;
}

TEST_F(SweepCommand, ARunIsBitForBitWhatTrainMakesOfTheSameRecipe) {
  ASSERT_EQ(run({"sweep", "ask.toml", "--jobs", "3"}), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--seed=2", "--train.steps=12", "--train.eval_every=4",
                 "--precision.gradients=mxfp4", "--name=alone"}),
            0)
      << output_;
  ASSERT_EQ(run({"diff", "runs/ask/runs/nearest/2", "runs/alone"}), int(ExitCode::differs)) << output_;
  EXPECT_TRUE(says("0 of ")) << "tensors: names of runs differ alone";
}

TEST_F(SweepCommand, FinishedRunsAreNotTrainedAgain) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const auto first = losses(results());
  const auto metrics = read_whole(folder_ / "runs/ask/runs/f32/1/metrics.jsonl");
  const auto report = read_whole_text(folder_ / "runs/ask/report.html");
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("0 of 6 runs to do"));
  EXPECT_EQ(losses(results()), first);
  EXPECT_TRUE(read_whole(folder_ / "runs/ask/runs/f32/1/metrics.jsonl") == metrics);
  // One run is gone: it alone is trained again, to the same loss.
  std::filesystem::remove_all(folder_ / "runs/ask/runs/4 bit/2");
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("1 of 6 runs to do") && says("[1/1] 4 bit seed 2"));
  EXPECT_EQ(losses(results()), first);
}

TEST_F(SweepCommand, RunsOfAnotherRecipeAreNamedAndTrainedAnewOnlyWhenAsked) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const auto first = losses(results());
  write_sweep("f32", 12, "set.optim.beta2 = 0.9\n");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("2 runs there have another recipe, program or data:\n  nearest seed 1: optim.beta2: "));
  EXPECT_TRUE(says("--again trains them anew"));
  EXPECT_EQ(losses(results()), first);
  ASSERT_EQ(run({"sweep", "ask.toml", "--again"}), 0) << output_;
  EXPECT_TRUE(says("2 of 6 runs to do"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs/ask/runs/nearest/1/before-1/metrics.jsonl"));
  const auto second = losses(results());
  EXPECT_NE(second[4], first[4]);
  EXPECT_EQ(second[0], first[0]);
}

TEST_F(SweepCommand, RunsOfAnotherProgramAreNotMixedWithThisOnes) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  RunRecord record = *read_record(folder_ / "runs/ask/runs/f32/2");
  record.arithmetic = "mxtape 0.1.0, cpu, oneDNN 1.0 another_cpu, loops avx2";
  write_record(folder_ / "runs/ask/runs/f32/2", record);
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(
      says("f32 seed 2: trained by mxtape 0.1.0, cpu, oneDNN 1.0 another_cpu, loops avx2; this is mxtape"));
}

TEST_F(SweepCommand, AStoppedSweepSavesAndGoesOnToTheSameLosses) {
  write_sweep("f32", 200);
  Program program(folder_.path(), {"sweep", "ask.toml", "--out", "stopped"});
  ASSERT_TRUE(program.printed("to do"));
  const auto metrics = folder_ / "stopped/runs/f32/1/metrics.jsonl";
  while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0) ::usleep(1000);
  program.send(SIGTERM);
  ASSERT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
  EXPECT_NE(program.output().find("to go on: mxtape sweep ask.toml --out stopped"), std::string::npos)
      << program.output();
  EXPECT_EQ(results("stopped")["complete"], false);
  ASSERT_EQ(run({"sweep", "ask.toml", "--check", "--json", "--out", "stopped"}), 0) << output_;
  std::int64_t steps_done = 0;
  const Json plan = Json::parse(output_);
  for (const Json& entry : plan["runs"]) {
    EXPECT_NE(entry["state"], "failed");
    steps_done += entry["steps_done"].get<std::int64_t>();
  }
  EXPECT_GT(steps_done, 0) << "saved";
  ASSERT_EQ(run({"sweep", "ask.toml", "--out", "stopped"}), 0) << output_;
  ASSERT_EQ(run({"sweep", "ask.toml", "--out", "whole", "--jobs", "1"}), 0) << output_;
  EXPECT_EQ(losses(results("stopped")), losses(results("whole")));
}

TEST_F(SweepCommand, AKilledSweepLeavesNoRunBehindAndGoesOn) {
  write_sweep("f32", 200);
  {
    Program program(folder_.path(), {"sweep", "ask.toml"});
    const auto metrics = folder_ / "runs/ask/runs/f32/1/metrics.jsonl";
    while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0) ::usleep(1000);
    program.send(SIGKILL);
    EXPECT_EQ(program.wait(), 128 + SIGKILL);
  }
  // Its runs got SIGTERM from the kernel; the next sweep waits until they have saved.
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_EQ(results()["complete"], true);
  EXPECT_EQ(output_.find("FAILED"), std::string::npos) << output_;
}

TEST_F(SweepCommand, ARunThatDivergesIsReportedAndTheOthersGoOn) {
  write_sweep("f32", 12,
              "[[arm]]\nname = \"wild\"\nset.optim.learning_rate = 1e30\nset.optim.clip_norm = 0\n");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::diverged)) << output_;
  EXPECT_TRUE(says("2 of 8 runs failed:\n  wild seed 1: exit code 4: "));
  const Json json = results();
  EXPECT_EQ(json["complete"], false);
  const Json &wild = arm(json, "wild"), &nearest = arm(json, "nearest");
  EXPECT_EQ(wild["runs"][0]["state"], "failed");
  EXPECT_EQ(wild["runs"][0]["code"], 4);
  EXPECT_TRUE(wild["gap"].is_null());
  EXPECT_EQ(nearest["gap"]["pairs"], 2);
  // The same recipe would give the same bits: it is not tried again, and still reported.
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::diverged)) << output_;
  EXPECT_TRUE(says("0 of 8 runs to do") && says("2 of 8 runs failed"));
}

TEST_F(SweepCommand, AnArmWithoutAllItsPairsGetsNoVerdict) {
  // Its second seed is kept from running: a file lies where its folder belongs.
  std::filesystem::create_directories(folder_ / "runs/ask/runs/nearest");
  write_atomically(folder_ / "runs/ask/runs/nearest/2", "in the way");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::resource)) << output_;
  const Json json = results();
  EXPECT_EQ(arm(json, "nearest")["gap"]["pairs"], 1);
  EXPECT_EQ(arm(json, "nearest")["gap"]["verdict"], "not resolved");
  EXPECT_EQ(arm(json, "nearest")["gap"]["reason"], "1 of 2 pairs is not finished");
  EXPECT_EQ(arm(json, "4 bit")["gap"]["pairs"], 2);
}

TEST_F(SweepCommand, CheckListsTheRunsAndWritesNothing) {
  ASSERT_EQ(run({"sweep", "ask.toml", "--check"}), 0) << output_;
  EXPECT_TRUE(says("ask.toml: 3 arms x 2 seeds, 12 steps, tolerance 0.5"));
  EXPECT_TRUE(says("f32  (the baseline)") && says("precision.gradients: ") && says("6 to do"));
  EXPECT_TRUE(says("time        about ") && says("disk        "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  ASSERT_EQ(run({"sweep", "ask.toml", "--check", "--json"}), 0) << output_;
  const Json json = Json::parse(output_);
  EXPECT_EQ(json["runs"].size(), 6u);
  EXPECT_EQ(json["runs"][0]["folder"], "runs/ask/runs/f32/1");
  EXPECT_GT(json["expected_seconds"].get<double>(), 0);
}

TEST_F(SweepCommand, BadFilesAreRefusedBeforeAnythingRuns) {
  write_sweep("f16", 12);
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("baseline = \"f16\" is no arm; did you mean 'f32'?"));
  EXPECT_EQ(run({"sweep", "nothing.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("nothing.toml") && says("want a sweep's .toml file"));
  write_sweep("f32", 12, "set.data.file = \"other.h5\"\n");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  write_sweep("f32", 12);
  EXPECT_EQ(run({"sweep", "ask.toml", "--jobs", "0"}), int(ExitCode::usage)) << output_;
  EXPECT_EQ(run({"sweep", "ask.toml", "--out", ""}), int(ExitCode::usage)) << output_;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(SweepCommand, ASecondSweepInTheSameFolderIsRefused) {
  write_sweep("f32", 200);
  Program first(folder_.path(), {"sweep", "ask.toml"});
  ASSERT_TRUE(first.printed("to do"));
  const TemporaryFolder other;
  std::filesystem::copy(folder_.path() / "data.h5", other / "data.h5");
  for (const char* file : {"ask.toml", "tiny.toml", "f32.toml"})
    std::filesystem::copy(folder_ / file, other / file);
  const Result second =
      run_program(other.path(), {"sweep", "ask.toml", "--out", (folder_ / "runs/ask").string()});
  EXPECT_EQ(second.code, int(ExitCode::resource)) << second.output;
  EXPECT_TRUE(contains(second.output, "another sweep is at work in this folder")) << second.output;
  first.send(SIGTERM);
  EXPECT_EQ(first.wait(), int(ExitCode::interrupted));
}

TEST_F(SweepCommand, JsonGoesToStandardOutputAloneAndIsTheFile) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string line =
      "cd '" + folder_.path().string() + "' && '" MXTAPE_PROGRAM "' sweep ask.toml --json 2>x";
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += char(c);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(Json::parse(text), results());
}

/// Every number that results.json has and the report shows.
void expect_numbers(const std::string& page, const Json& json) {
  const auto holds = [&](const Json& number) {
    EXPECT_NE(page.find("<data value=\"" + number.dump() + "\">"), std::string::npos) << number;
  };
  holds(json["resolvable_gap"]);
  for (const Json& arm : json["arms"]) {
    holds(arm["mean_loss"]);
    for (const Json& run : arm["runs"]) holds(run["loss"]);
    if (arm["gap"].is_null()) continue;
    holds(arm["gap"]["mean"]);
    for (const Json& end : arm["gap"]["interval95"]) holds(end);
    EXPECT_NE(page.find(arm["gap"]["verdict"].get<std::string>()), std::string::npos);
  }
}

TEST_F(SweepCommand, TheReportIsOneWholePageWithAllNumbersAndAsksForNothing) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string page = read_whole_text(folder_ / "runs/ask/report.html");
  EXPECT_EQ(html_fault(page), "");
  expect_numbers(page, results());
  for (const char* outside :
       {"http", "src=", "href", "url(", "@import", "<script", "<link", "<img", "<iframe"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  for (const char* part : {"prefers-color-scheme: dark", "<svg", "What differs from the baseline",
                           "precision.gradients", "4 bit"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST_F(SweepCommand, ABrowserWithoutANetworkShowsTheReport) {
  std::string browser;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0) browser = name;
  if (const char* named = std::getenv("MXTAPE_BROWSER")) browser = named;
  if (browser.empty()) GTEST_SKIP() << "no chromium here, and MXTAPE_BROWSER names none";
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string line = fmt::format(
      "cd '{0}' && {1} --headless --no-sandbox --disable-gpu --user-data-dir='{0}/browser' "
      "--proxy-server=127.0.0.1:9 --dump-dom 'file://{0}/runs/ask/report.html' 2>messages.txt",
      folder_.path().string(), browser);
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string dom;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) dom += char(c);
  ASSERT_EQ(::pclose(pipe), 0) << read_whole_text(folder_ / "messages.txt");
  expect_numbers(dom, results());
  EXPECT_NE(dom.find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace mxtape::test
