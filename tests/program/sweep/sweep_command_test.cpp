// mxtape sweep as a user runs it: trained end to end, repeated, checked, refused.
#include "program/records/run_log.h"
#include "tests/program/sweep/sweep_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(SweepCommand, TrainsEveryArmOnEverySeedAndReportsThePairedGaps) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("3 arms x 2 seeds, 12 steps; 6 of 6 runs to do"));
  EXPECT_TRUE(says("[6/6]"));
  const Json json = results();
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["points"][0]["steps"], 12);
  ASSERT_EQ(losses(json).size(), 6u);
  const Json base = arm(json, "f32"), nearest = arm(json, "nearest");
  EXPECT_TRUE(base["gap"].is_null());
  double mean = 0;
  for (int k = 0; k < 2; ++k) {
    const Json& entry = nearest["runs"][std::size_t(k)];
    EXPECT_EQ(entry["seed"], k + 1);
    EXPECT_GT(entry["ms"].get<double>(), 0);
    EXPECT_GT(entry["peak_mib"].get<double>(), 1);
    // The run is one that other commands understand, and the loss is what it measured.
    const RunLog log = read_run_log(folder_ / "runs/ask" / entry["folder"].get<std::string>());
    EXPECT_EQ(log.validation.back().loss, entry["loss"].get<double>());
    EXPECT_EQ(log.last_step(), 12);
    mean += (entry["loss"].get<double>() - base["runs"][std::size_t(k)]["loss"].get<double>()) / 2;
  }
  EXPECT_NEAR(nearest["gap"]["mean"].get<double>(), mean, 1e-15);
  EXPECT_EQ(run({"plot", "runs/ask/runs/4 bit/2", "runs/ask/runs/f32/2"}), 0) << output_;
  EXPECT_TRUE(says("\n4 bit/2 ") && says("\nf32/2 "));
  EXPECT_EQ(run({"train", "ask.toml"}), int(ExitCode::usage));
  EXPECT_TRUE(says("a file with it is a sweep's: mxtape sweep ask.toml"));
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
  EXPECT_TRUE(says("3 arms x 2 seeds, 12 steps; nothing to do"));
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

TEST_F(SweepCommand, RunsThatWereValidatedOtherwiseAreNotTaken) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string text = read_whole_text(folder_ / "ask.toml"), every = "train.eval_every = 4\n";
  for (const std::string key : {"train.eval_every = 5\n", "train.eval_every = 4\ntrain.eval_windows = 1\n",
                                "train.eval_every = 4\ntelemetry.every = 4\n"}) {
    std::string changed = text;
    write_atomically(folder_ / "ask.toml", changed.replace(changed.find(every), every.size(), key));
    EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(says("6 runs there have another recipe")) << output_;
  }
}

TEST_F(SweepCommand, RunsWithoutARecordAreOfTheDataThatTheirCheckpointsName) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const auto record = folder_ / "runs/ask/runs/f32/1/sweep.json";
  std::filesystem::remove(record);
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("nothing to do")) << output_;
  std::filesystem::remove(record);
  TokenFile other = test::tiny_data();
  std::swap(other.train, other.validation);
  TokenFile(other).write(folder_ / "data.h5");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("6 runs there have another recipe, program or data")) << output_;
  EXPECT_TRUE(says("f32 seed 1: trained on data of hash ")) << output_;
}

TEST_F(SweepCommand, RunsOfAnotherProgramAreNotMixedWithThisOnes) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  RunRecord record = *read_record(folder_ / "runs/ask/runs/f32/2");
  record.arithmetic = "mxtape 0.1.0, cpu, bf16 GEMMs another_cpu, loops avx2";
  write_record(folder_ / "runs/ask/runs/f32/2", record);
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(
      says("f32 seed 2: trained by mxtape 0.1.0, cpu, bf16 GEMMs another_cpu, loops avx2; this is mxtape"));
}

TEST_F(SweepCommand, CheckListsTheRunsAndWritesNothing) {
  ASSERT_EQ(run({"sweep", "ask.toml", "--check"}), 0) << output_;
  EXPECT_TRUE(says("ask.toml: 3 arms x 2 seeds, 12 steps, tolerance 0.5"));
  EXPECT_TRUE(says("f32  (the baseline)") && says("precision.gradients: ") && says("6 to do"));
  EXPECT_TRUE(says("time        about ") && says("disk        "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  ASSERT_EQ(run({"sweep", "ask.toml", "--check", "--json"}), 0) << output_;
  const Json json = Json::parse(output_);
  const Json& stage = json["stages"].at(0);
  EXPECT_EQ(stage["runs"].size(), 6u);
  EXPECT_EQ(stage["runs"][0]["folder"], "runs/ask/runs/f32/1");
  EXPECT_GT(json["expected_seconds"].get<double>(), 0);
  // What the base says of threads holds for a run of its own.
  std::string single = read_whole_text(folder_ / "ask.toml");
  single.replace(single.find("tiny.toml"), 4, "slow");
  write_atomically(folder_ / "single.toml", single);
  write_atomically(folder_ / "slow.toml", std::string("extends = ['tiny.toml']\n[compute]\nthreads = 1\n"));
  ASSERT_EQ(run({"sweep", "single.toml", "--check", "--json"}), 0) << output_;
  EXPECT_EQ(Json::parse(output_)["stages"][0]["jobs"], stage["jobs"]);
}

TEST_F(SweepCommand, CheckSaysWhichArmsStepsDivergeAndTimesTheOthers) {
  write_sweep("f32", 12, "[[arm]]\nname = \"wild\"\nset.optim.learning_rate = 1e30\n");
  ASSERT_EQ(run({"sweep", "ask.toml", "--check"}), 0) << output_;
  EXPECT_TRUE(says("time        about ") && says("timed now"));
  EXPECT_TRUE(says("note: arm 'wild' diverges on the random tokens that time it (step "));
  write_sweep("wild", 12, "[[arm]]\nname = \"wild\"\nset.optim.learning_rate = 1e30\n");
  ASSERT_EQ(run({"sweep", "ask.toml", "--check", "--json"}), 0) << output_;
  const Json json = Json::parse(output_);
  EXPECT_GT(json["stages"][0]["expected_seconds"].get<double>(), 0);
  EXPECT_TRUE(json["stages"][0]["ms"].is_null());
  EXPECT_EQ(json["stages"][0]["ms_reason"],
            "a step of an arm without finished runs takes seconds, or diverges");
  EXPECT_EQ(json["notes"].size(), 1u) << json["notes"];
}

TEST_F(SweepCommand, CheckTimesTheBaselineWhereverItStands) {
  write_sweep_of_two_gemms();
  ASSERT_EQ(run({"sweep", "gemms.toml", "--check"}), 0) << output_;
  EXPECT_TRUE(says("timed now"));
}

TEST_F(SweepCommand, BadFilesAreRefusedBeforeAnythingRuns) {
  write_sweep("f16", 12);
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("baseline = \"f16\" is no arm; did you mean 'f32'?"));
  EXPECT_EQ(run({"sweep", "nothing.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("nothing.toml") && says("want a sweep's .toml file"));
  write_sweep("f32", 12, "set.data.file = \"other.h5\"\n");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  std::string without = read_whole_text(folder_ / "tiny.toml");
  without.replace(without.find("\"data.h5\""), 9, "\"\"");
  write_atomically(folder_ / "without.toml", without);
  write_atomically(
      folder_ / "no_data.toml",
      std::string("base = 'without.toml'\nbaseline = 'a'\nseeds = 1\ntolerance = 0.1\n"
                  "[[arm]]\nname = 'a'\n[[arm]]\nname = 'b'\nset.precision.gradients = 'mxfp4'\n"));
  EXPECT_EQ(run({"sweep", "no_data.toml"}), int(ExitCode::usage));
  EXPECT_TRUE(says("no_data.toml: data.file is not set; want it in [set], or in the base"));
  write_sweep("f32", 12);
  EXPECT_EQ(run({"sweep", "ask.toml", "--jobs", "0"}), int(ExitCode::usage)) << output_;
  EXPECT_EQ(run({"sweep", "ask.toml", "--out", ""}), int(ExitCode::usage)) << output_;
  // Some 6 GiB a run.
  write_sweep("f32", 12);
  std::string wide = read_whole_text(folder_ / "ask.toml");
  wide.insert(wide.find("train.steps"), "model.width = 4096\n");
  write_atomically(folder_ / "wide.toml", wide);
  EXPECT_EQ(run({"sweep", "wide.toml", "--jobs", "1024"}), int(ExitCode::resource)) << output_;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace mxtape::test
