// mxtape sweep when something ends early: a signal, a kill, runs that fail, a second sweep.
#include "tests/program/sweep/sweep_fixture.h"

namespace mxtape::test {
namespace {

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
  for (const Json& entry : plan["stages"][0]["runs"]) {
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
  // Its runs get SIGUSR1 from the kernel, and save; the next sweep waits until they have.
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_EQ(results()["complete"], true);
  EXPECT_EQ(output_.find("FAILED"), std::string::npos) << output_;
  const std::string log = read_whole_text(folder_ / "runs/ask/logs/f32/1.txt");
  EXPECT_TRUE(contains(log, "stopped by SIGUSR1")) << log;
}

TEST_F(SweepCommand, ARunThatSomebodyElseStopsIsSavedAndNotFailed) {
  write_sweep("f32", 400);
  Program program(folder_.path(), {"sweep", "ask.toml", "--jobs", "1"});
  ASSERT_TRUE(program.printed("to do"));
  const auto metrics = folder_ / "runs/ask/runs/f32/1/metrics.jsonl";
  while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0) ::usleep(1000);
  const pid_t run_of_it =
      std::stoi(read_whole_text(fmt::format("/proc/{0}/task/{0}/children", program.pid())));
  ::kill(run_of_it, SIGTERM);
  EXPECT_EQ(program.wait(), int(ExitCode::interrupted));
  output_ = program.output();
  EXPECT_TRUE(says("[1/6] f32 seed 1 | saved, not finished | "));
  EXPECT_TRUE(
      says("1 of 6 runs stopped and saved; run the same sweep again to go on with:\n"
           "  f32 seed 1: "));
  EXPECT_TRUE(!says("FAILED") && !says("runs failed"));
  EXPECT_EQ(arm(results(), "f32")["runs"][0]["state"], "unfinished");
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("1 of 6 runs to do"));
}

TEST_F(SweepCommand, AFailedRunsCodeGoesBeforeThatOfAStoppedOneButNotBeforeThatOfAStoppedSweep) {
  write_sweep("f32", 400);
  write_atomically(folder_ / "ask.toml",
                   std::string("base = \"tiny.toml\"\nbaseline = \"f32\"\nseeds = 1\ntolerance = 0.5\n"
                               "[set]\ntrain.steps = 400\ntrain.eval_every = 4\n"
                               "[[arm]]\nname = \"f32\"\nrecipe = \"f32.toml\"\n"
                               "[[arm]]\nname = \"wild\"\nset.optim.learning_rate = 1e30\n"
                               "set.optim.clip_norm = 0\n"));
  const auto metrics = folder_ / "runs/ask/runs/f32/1/metrics.jsonl";
  const auto trains_beyond = [&](std::uintmax_t size) {
    while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) <= size) ::usleep(1000);
  };
  {
    Program program(folder_.path(), {"sweep", "ask.toml", "--jobs", "1"});
    ASSERT_TRUE(program.printed("to do"));
    trains_beyond(0);
    ::kill(std::stoi(read_whole_text(fmt::format("/proc/{0}/task/{0}/children", program.pid()))), SIGTERM);
    EXPECT_EQ(program.wait(), int(ExitCode::diverged));
    output_ = program.output();
  }
  EXPECT_TRUE(says("1 of 2 runs failed:\n  wild seed 1: exit code 4: "));
  EXPECT_TRUE(says("1 of 2 runs stopped and saved"));
  EXPECT_LT(output_.find("runs failed"), output_.find("runs stopped and saved"));
  Program again(folder_.path(), {"sweep", "ask.toml"});
  ASSERT_TRUE(again.printed("1 of 2 runs to do"));
  trains_beyond(std::filesystem::file_size(metrics));
  again.send(SIGTERM);
  EXPECT_EQ(again.wait(), int(ExitCode::interrupted)) << "run again: the other run goes on";
}

TEST_F(SweepCommand, ARunThatDivergesIsReportedAndTheOthersGoOn) {
  write_sweep("f32", 12,
              "[[arm]]\nname = \"wild\"\nset.optim.learning_rate = 1e30\nset.optim.clip_norm = 0\n"
              "set.train.save_every = 1\n");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::diverged)) << output_;
  EXPECT_TRUE(says("2 of 8 runs failed:\n  wild seed 1: exit code 4: "));
  const Json json = results();
  EXPECT_EQ(json["complete"], false);
  const Json wild = arm(json, "wild"), nearest = arm(json, "nearest");
  EXPECT_EQ(wild["runs"][0]["state"], "failed");
  EXPECT_EQ(wild["runs"][0]["code"], 4);
  EXPECT_EQ(wild["gap"]["pairs"], 0);
  EXPECT_EQ(wild["gap"]["reason"], "2 of 2 pairs missing or failed");
  EXPECT_EQ(nearest["gap"]["pairs"], 2);
  // The same recipe would give the same bits: it is not tried again, and still reported.
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::diverged)) << output_;
  EXPECT_TRUE(says("; nothing to do") && says("2 of 8 runs failed"));
  EXPECT_EQ(results()["tokens_trained"], json["tokens_trained"]);
  EXPECT_GT(json["tokens_trained"], 6 * json["points"][0]["tokens"].get<std::int64_t>()) << "wild ones count";
}

TEST_F(SweepCommand, ARunWhoseRecordsWereDeletedIsReportedAndTheOthersCount) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  std::filesystem::remove(folder_ / "runs/ask/runs/nearest/2/metrics.jsonl");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::data)) << output_;
  EXPECT_TRUE(says(
      "nearest/2: metrics.jsonl lacks the last validation; move the folder away, and the sweep trains it "
      "again"));
  EXPECT_EQ(arm(results(), "4 bit")["gap"]["pairs"], 2);
}

TEST_F(SweepCommand, AnArmWithoutAllItsPairsGetsNoVerdict) {
  // Its second seed is kept from running: a file lies where its folder belongs.
  std::filesystem::create_directories(folder_ / "runs/ask/runs/nearest");
  write_atomically(folder_ / "runs/ask/runs/nearest/2", "in the way");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::resource)) << output_;
  const Json json = results();
  EXPECT_EQ(arm(json, "nearest")["gap"]["pairs"], 1);
  EXPECT_EQ(arm(json, "nearest")["gap"]["verdict"], "not resolved");
  EXPECT_EQ(arm(json, "nearest")["gap"]["reason"], "1 of 2 pairs missing or failed");
  EXPECT_EQ(arm(json, "4 bit")["gap"]["pairs"], 2);
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

}  // namespace
}  // namespace mxtape::test
