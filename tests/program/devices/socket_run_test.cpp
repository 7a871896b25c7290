// What a user sees who starts the program with torchrun, or by hand.
#include "tests/program/devices/ranks.h"

namespace mxtape::test {
namespace {

using SocketRun = Ranks;

TEST_F(SocketRun, AnyNumberOfProcessesLeavesTheCheckpointsAndRecordsOfOne) {
  ASSERT_EQ(run({"train", "shared.toml", "--train.out=alone"}), 0) << output_;
  const auto bytes = [&](const char* out, std::int64_t step) {
    return read_whole(folder_ / fmt::format("{}/shared/checkpoints/step_{:08}.h5", out, step));
  };
  const auto losses = [&](const char* out) {
    std::string all;
    std::ifstream file(folder_ / out / "shared/metrics.jsonl");
    for (std::string line; std::getline(file, line);) all += line.substr(0, line.find("\"ms\"")) + "\n";
    return all;
  };
  for (const auto& [count, out] :
       {std::pair{1, "one"}, std::pair{2, "two"}, std::pair{3, "three"}, std::pair{4, "four"}}) {
    ASSERT_EQ(on(count, train({fmt::format("--train.out={}", out)})), 0) << output_;
    EXPECT_EQ(times("folder  "), 1) << output_;
    if (count > 1) {
      EXPECT_TRUE(says(fmt::format("{} processes on 1 host; 4 strands in ", count)));
    }
    EXPECT_TRUE(bytes(out, 4) == bytes("alone", 4)) << output_;
    EXPECT_TRUE(bytes(out, 8) == bytes("alone", 8)) << output_;
    EXPECT_EQ(losses(out), losses("alone"));
  }
  // The same words on another number of processes: the same bytes.
  const auto first = bytes("two", 8);
  std::filesystem::remove_all(folder_ / "two");
  ASSERT_EQ(on(3, train({"--train.out=two"})), 0) << output_;
  EXPECT_TRUE(bytes("two", 8) == first);
}

TEST_F(SocketRun, OneThreadAProcessOrTwoGiveTheSameBits) {
  ASSERT_EQ(on(2, train({"--name=one", "--compute.threads=1"})), 0) << output_;
  ASSERT_EQ(on(2, train({"--name=two", "--compute.threads=2"})), 0) << output_;
  EXPECT_TRUE(same_checkpoint(last("one"), last("two"))) << output_;
}

TEST_F(SocketRun, ARunGoesOnOnAnotherNumberOfProcesses) {
  ASSERT_EQ(on(1, train({"--name=whole"})), 0) << output_;
  ASSERT_EQ(on(4, train()), 0) << output_;
  std::filesystem::remove(last("shared"));
  ASSERT_EQ(on(3, train({"--resume", "auto"})), 0) << output_;
  EXPECT_TRUE(says("resumed from"));
  EXPECT_TRUE(same_checkpoint(last("whole"), last("shared"))) << output_;
  std::filesystem::remove(last("shared"));
  ASSERT_EQ(run({"train", "shared.toml", "--resume", "auto"}), 0) << output_;
  EXPECT_TRUE(same_checkpoint(last("whole"), last("shared"))) << output_;
}

TEST_F(SocketRun, MoreProcessesThanStrandsAreRefusedWithWhatWouldDo) {
  EXPECT_EQ(on(2, train({"--train.strands=1", "--train.accumulation=4"})), 2) << output_;
  EXPECT_TRUE(
      says("train.strands = 1: one device can share a step, and there are 2; want, say, --train.strands=2 "
           "--train.accumulation=2"));
  EXPECT_EQ(times("train.strands = 1"), 1) << output_;
}

TEST_F(SocketRun, AnErrorThatAllHaveIsSaidOnce) {
  EXPECT_EQ(on(3, train({"--train.stepps=3"})), 2) << output_;
  EXPECT_EQ(times("stepps"), 1) << output_;
  EXPECT_EQ(on(3, train({"--data.file=none.h5"})), 3) << output_;
  EXPECT_EQ(times("mxtape: none.h5: no such token file"), 1) << output_;
  ASSERT_EQ(on(2, train()), 0) << output_;
  EXPECT_EQ(on(2, train()), 2) << output_;  // checkpoints are in the way: rank 0 alone sees them
  EXPECT_EQ(times("add --resume auto"), 1) << output_;
}

TEST_F(SocketRun, AnotherRecipeOnOneProcessIsNamedWithBothValues) {
  EXPECT_EQ(end({{train()}, {train({"--seed=9"})}}), 2) << output_;
  EXPECT_TRUE(says("the processes of the run differ in recipe: rank 0 of 2"));
  EXPECT_TRUE(says("rank 1 of 2"));
  EXPECT_TRUE(says("seed = 9"));
  EXPECT_EQ(times("differ in recipe"), 1) << output_;
}

TEST_F(SocketRun, AnotherDataFileOrNoneOnOneHostIsNamed) {
  const auto elsewhere = folder_ / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::filesystem::copy_file(folder_ / "shared.toml", elsewhere / "shared.toml");
  const std::vector<Rank> ranks{{train()}, {train(), {}, elsewhere}};
  EXPECT_EQ(end(ranks), 3) << output_;
  EXPECT_TRUE(says("mxtape: rank 1 of 2"));
  EXPECT_EQ(times("data.h5: no such token file"), 1) << output_;
  TokenFile data = tiny_data();
  data.train.narrow.pop_back();
  data.write(elsewhere / "data.h5");
  EXPECT_EQ(end(ranks), 3) << output_;
  EXPECT_TRUE(says("differ in the content of data.h5"));
  EXPECT_TRUE(says("copy one file to all hosts"));
}

TEST_F(SocketRun, WhatTrainInitNamesIsWantedOnRankZerosHostAlone) {
  ASSERT_EQ(run(train({"--name=base"})), 0) << output_;
  const auto elsewhere = folder_ / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  for (const char* const file : {"shared.toml", "data.h5"})
    std::filesystem::copy_file(folder_ / file, elsewhere / file);
  const Words words = train({"--name=tuned", "--train.init=runs/base"});
  Words shorter = words, longer = words;
  shorter.push_back("--train.steps=4");
  EXPECT_EQ(end({{shorter}, {shorter, {}, elsewhere}}), 0) << output_;
  std::filesystem::remove_all(folder_ / "runs/base");
  longer.insert(longer.end(), {"--resume", "auto", "--allow-change", "train.steps"});
  EXPECT_EQ(end({{longer}, {longer, {}, elsewhere}}), 0) << output_;
  EXPECT_TRUE(std::filesystem::exists(last("tuned")));
}

TEST_F(SocketRun, AnotherInstructionSetOnOneProcessIsRefused) {
  const int code = end({{train()}, {train(), {"ONEDNN_MAX_CPU_ISA=AVX2", "DNNL_MAX_CPU_ISA=AVX2"}}});
  if (code == 0) GTEST_SKIP() << "this machine has no instruction set above AVX2";
  EXPECT_EQ(code, 6) << output_;
  EXPECT_TRUE(says("differ in arithmetic"));
}

TEST_F(SocketRun, AnotherNumberOfProcessesOrTwoOfOneRankAreNamed) {
  EXPECT_EQ(end({{train()}, {train(), {"WORLD_SIZE=3"}}}), 2) << output_;
  EXPECT_EQ(times("mxtape: the processes of the run differ in their number"), 1) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
  EXPECT_EQ(end({{train()}, {train()}, {train(), {"RANK=1"}}}), 2) << output_;
  EXPECT_EQ(times("mxtape: two processes say that they are rank 1 of 3"), 1) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
}

TEST_F(SocketRun, AProcessThatIsMissingIsNamedAfterTheDeadline) {
  EXPECT_EQ(end({{train(), {"WORLD_SIZE=3", "MXTAPE_PEER_TIMEOUT=1"}},
                 {train(), {"WORLD_SIZE=3", "MXTAPE_PEER_TIMEOUT=1"}}}),
            7)
      << output_;
  EXPECT_EQ(times("for rank 2 of 3 to start"), 1) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
}

TEST_F(SocketRun, VariablesThatDoNotFitAreRefused) {
  EXPECT_EQ(end({{train(), {"MASTER_PORT=http"}}, {train(), {"MASTER_PORT=http"}}}), 2) << output_;
  // No launcher ends the second, so it speaks too; rank 0 has had the time to be first.
  EXPECT_EQ(times("mxtape: torchrun: MASTER_PORT is 'http'; want a port"), 1) << output_;
  EXPECT_EQ(times("mxtape: rank 1: torchrun: MASTER_PORT is 'http'; want a port"), 1) << output_;
  EXPECT_EQ(end({{train(), {"LOCAL_RANK=x"}}}), 2) << output_;
  EXPECT_EQ(times("LOCAL_RANK is 'x'"), 1) << output_;
  RankProcesses unknown = start(
      {{train(), {"MASTER_ADDR=no.such.host.invalid", "RANK=1", "WORLD_SIZE=2", "MXTAPE_PEER_TIMEOUT=1"}}});
  EXPECT_EQ(unknown.wait(), std::vector<int>{2}) << unknown.output();
  EXPECT_NE(unknown.output().find("s more\n"), std::string::npos) << unknown.output();
  EXPECT_NE(unknown.output().find("mxtape: rank 1 of 2: host 'no.such.host.invalid': "), std::string::npos)
      << unknown.output();
}

TEST_F(SocketRun, ADivergenceEndsAllWithItsCodeAndOneMessage) {
  EXPECT_EQ(on(2, train({"--optim.learning_rate=1e30", "--optim.clip_norm=0", "--schedule.warmup_steps=0"})),
            4)
      << output_;
  EXPECT_EQ(times("first seen in"), 1) << output_;
}

// Weights grow by about the learning rate in each step, and E4M3 without a scale ends at 448.
TEST_F(SocketRun, ARollbackIsSharedToo) {
  const std::string text = read_whole_text(folder_ / "shared.toml");
  Recipe recipe = recipe_from_toml(text, "shared.toml");
  recipe.train.steps = 40;
  recipe.train.save_every = 5;
  recipe.train.on_divergence = OnDivergence::rollback;
  recipe.schedule.warmup_steps = 0;
  recipe.optim.learning_rate = 25;
  recipe.precision.weights = "e4m3";
  recipe.precision.phases = {{.start_rollback = 1, .rules = {{"*", {"*.w"}, "f32", "here"}}}};
  write_atomically(folder_ / "shared.toml", to_toml(recipe));
  ASSERT_EQ(on(1, train({"--name=alone"})), 0) << output_;
  EXPECT_EQ(times("rollback 1 of at most"), 1) << output_;
  ASSERT_EQ(on(3, train()), 0) << output_;
  EXPECT_EQ(times("rollback 1 of at most"), 1) << output_;
  EXPECT_TRUE(same_checkpoint(last("alone", 40), last("shared", 40))) << output_;
}

}  // namespace
}  // namespace mxtape::test
