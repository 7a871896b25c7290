// The program as a user runs it: what its commands do.
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(ProgramTest, TrainsARecipeAndLeavesItsFilesAndAResult) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.sample_tokens=40"}), 0) << output_;
  for (const char* line : {"mxtape ", "seed 7", "parameters", "mxfp4 round=stochastic", "step 6/6 | loss ",
                           "validation loss ", "perplexity", "sample, 40 tokens"})
    EXPECT_TRUE(says(line));
  for (const char* file : {"recipe.toml", "device.txt", "metrics.jsonl", "events.out.tfevents.mxtape",
                           "checkpoints/step_00000006.h5"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "runs/tiny" / file)) << file;
}

TEST_F(ProgramTest, TheSameRecipeLeavesTheSameCheckpointOnOneThreadAndTwo) {
  ASSERT_EQ(run({"train", "tiny.toml", "--compute.threads=1"}), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--compute.threads=2", "--train.out=elsewhere"}), 0) << output_;
  EXPECT_TRUE(read_whole(checkpoint(6)) ==
              read_whole(folder_ / "elsewhere/tiny/checkpoints/step_00000006.h5"));
}

TEST_F(ProgramTest, CheckingEveryKernelLeavesTheSameBytes) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ::setenv("MXTAPE_CHECK", "1", 1);
  const int code = run({"train", "tiny.toml", "--train.out=checked"});
  ::unsetenv("MXTAPE_CHECK");
  ASSERT_EQ(code, 0) << output_;
  EXPECT_TRUE(read_whole(checkpoint(6)) == read_whole(folder_ / "checked/tiny/checkpoints/step_00000006.h5"));
}

TEST_F(ProgramTest, WhatCheckingFindsEndsARunThatElseWouldSkipAStepOrGoBack) {
  ::setenv("MXTAPE_CHECK", "1", 1);
  for (const char* policy : {"skip", "rollback"}) {
    EXPECT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0",
                   "--train.save_every=1", "--schedule.warmup_steps=0", "--resume=no",
                   fmt::format("--train.on_divergence={}", policy)}),
              int(ExitCode::diverged))
        << output_;
    EXPECT_TRUE(says("not finite")) << output_;
    EXPECT_TRUE(says("MXTAPE_CHECK=1: what it finds ends the run, whatever train.on_divergence says"));
    EXPECT_FALSE(says("is skipped") || says("goes back") || says("rollback 1")) << output_;
  }
  ::unsetenv("MXTAPE_CHECK");
}

TEST_F(ProgramTest, EvaluatesTheLastCheckpointToTheLossThatTrainingReported) {
  ASSERT_EQ(run({"train", "tiny.toml", "--precision.weights=f32", "--precision.activations=f32"}), 0)
      << output_;
  const double trained = number_after("validation loss ");
  ASSERT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp4", "--precision", "recipe"}), 0) << output_;
  EXPECT_EQ(number_after("\nf32"), 32);
  std::istringstream row(output_.substr(output_.find("\nf32") + 4));
  double bits = 0, loss = 0;
  row >> bits >> loss;
  EXPECT_EQ(loss, trained);
  EXPECT_TRUE(says("\nmxfp4"));
  EXPECT_TRUE(says("\nrecipe"));
}

TEST_F(ProgramTest, SamplesBeyondTheContextAndTheSameTextForTheSameSeed) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "50", "--seed", "3"}), 0)
      << output_;
  const std::string first = without_times(output_);
  EXPECT_EQ(first.size(), std::string("the cat").size() + 50 + 1);
  ASSERT_EQ(run({"sample", checkpoint(6).string(), "--prompt", "the cat", "--tokens", "50", "--seed", "3"}),
            0);
  EXPECT_EQ(without_times(output_), first);
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "50", "--seed", "4"}), 0);
  const std::string second = without_times(output_);
  EXPECT_NE(second, first);
  ASSERT_EQ(
      run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "50", "--seed", "3", "--samples", "2"}),
      0);
  EXPECT_EQ(without_times(output_), first + "----\n" + second);
}

TEST_F(ProgramTest, EvalAwayFromTheDataSaysHowToNameIt) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  std::filesystem::rename(folder_ / "data.h5", folder_ / "moved.h5");
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "f32"}), int(ExitCode::data));
  EXPECT_TRUE(says("mxtape: data.h5: no such file here"));
  EXPECT_TRUE(says("--data FILE"));
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "f32", "--data", "moved.h5"}), 0) << output_;
}

TEST_F(ProgramTest, ARunThatDivergesEndsWithExit4NamingStepAndTensorAndKeepsTheLastCheckpoint) {
  EXPECT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0",
                 "--train.save_every=1", "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged))
      << output_;
  EXPECT_TRUE(says("step 2: the "));
  EXPECT_TRUE(says("first seen in blocks.0.attn.qkv: gemm: fprop.y "));
  EXPECT_TRUE(says("not finite at element"));
  EXPECT_TRUE(says("the weights are still those after step 1"));
  EXPECT_TRUE(says("every tensor of that step: mxtape replay runs/tiny --step 2"));
  EXPECT_TRUE(says("the last checkpoint before it is runs/tiny/checkpoints/step_00000001.h5"));
  EXPECT_TRUE(
      says("half the learning rate: mxtape train tiny.toml --optim.clip_norm=0 --train.save_every=1 "
           "--schedule.warmup_steps=0 --resume auto --allow-change optim --optim.learning_rate=5e+29\n"));
  EXPECT_TRUE(std::filesystem::exists(checkpoint(1)));
  EXPECT_FALSE(std::filesystem::exists(checkpoint(2)));
}

// Where the rate is a word of its own, and where it is the recipe's.
TEST_F(ProgramTest, TheAdviceAfterADivergenceIsAnotherRateAndACommandThatRuns) {
  for (const std::vector<std::string>& rate :
       {std::vector<std::string>{"--optim.learning_rate", "1e30"}, {"--optim.learning_rate=1e30"}}) {
    std::vector<std::string> words{"train", "tiny.toml", "--optim.clip_norm=0", "--train.save_every=1"};
    words.insert(words.begin() + 2, rate.begin(), rate.end());
    EXPECT_EQ(run(words), int(ExitCode::diverged)) << output_;
    const std::string label = "half the learning rate: mxtape ";
    ASSERT_TRUE(says(label));
    const auto at = output_.find(label) + label.size();
    std::istringstream line(output_.substr(at, output_.find('\n', at) - at));
    words.clear();
    for (std::string word; line >> word;) words.push_back(word);
    EXPECT_EQ(words.back(), "--optim.learning_rate=5e+29");
    EXPECT_EQ(run(words), int(ExitCode::diverged)) << "half of that is too much, too";
    EXPECT_TRUE(says("changed optim.learning_rate: ")) << output_;
    std::filesystem::remove_all(folder_ / "runs");
  }
}

TEST_F(ProgramTest, ARunWhoseLastValidationDivergesIsNotToldToGoOn) {
  EXPECT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0", "--train.steps=1",
                 "--train.save_every=1", "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged));
  EXPECT_TRUE(says("all steps are done; runs/tiny/checkpoints/step_00000001.h5 holds what they led to"));
}

TEST_F(ProgramTest, TheMemoryOfTheProcessIsItsOwnAndNotThatOfWhatStartedIt) {
  constexpr std::size_t mib = 600;
  const std::vector<char> much(mib << 20,
                               'x');  // resident when the program is forked, as a launcher's Python is
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_LT(number_after("at their peak, process "), double(much.size() >> 20)) << output_;
}

TEST_F(ProgramTest, ARunThatDivergesBeforeItsFirstCheckpointSaysSo) {
  EXPECT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0",
                 "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged));
  EXPECT_TRUE(says("no checkpoint before it: train.save_every is 0, train.save_minutes 10"));
}

}  // namespace
}  // namespace mxtape::test
