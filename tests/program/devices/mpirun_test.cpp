// What a user sees who starts the program with mpirun. What does not depend on who starts the processes is in
// devices_run_test.cpp.
#include "tests/program/devices/mpirun.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::test {
namespace {

TEST_F(Mpirun, AnyNumberOfProcessesLeavesTheCheckpointsAndRecordsOfOne) {
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
  // train.out is in the recipe that a checkpoint holds.
  const auto same = [&](const char* out, std::int64_t step) {
    return run({"diff", (folder_ / fmt::format("alone/shared/checkpoints/step_{:08}.h5", step)).string(),
                (folder_ / fmt::format("{}/shared/checkpoints/step_{:08}.h5", out, step)).string()}) == 0;
  };
  for (const auto& [count, out] :
       {std::pair{1, "one"}, std::pair{2, "two"}, std::pair{3, "three"}, std::pair{4, "four"}}) {
    ASSERT_EQ(on(count, train({fmt::format("--train.out={}", out)})), 0) << output_;
    EXPECT_EQ(times("folder  "), 1) << output_;
    if (count > 1) {
      EXPECT_TRUE(says(fmt::format("{} processes on 1 host; 4 strands in ", count)));
    }
    EXPECT_TRUE(same(out, 4)) << output_;
    EXPECT_TRUE(same(out, 8)) << output_;
    EXPECT_EQ(losses(out), losses("alone"));
  }
  // The same words on another number of processes: the same bytes.
  const auto first = bytes("two", 8);
  std::filesystem::remove_all(folder_ / "two");
  ASSERT_EQ(on(3, train({"--train.out=two"})), 0) << output_;
  EXPECT_TRUE(bytes("two", 8) == first);
}

TEST_F(Mpirun, AnErrorThatAllHaveIsSaidOnce) {
  expect_said_once([&](int count, const Words& words) { return on(count, words); });
}

TEST_F(Mpirun, VariablesWithoutTheirLauncherAreRefused) {
  const auto alone = [&](const std::vector<std::pair<const char*, const char*>>& variables) {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    const int code = run(train());
    for (const auto& [name, value] : variables) ::unsetenv(name);
    return code;
  };
  EXPECT_EQ(alone({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}}), 2) << output_;
  EXPECT_TRUE(says("finds 1: the two are not of one kind"));
  EXPECT_EQ(alone({{"OMPI_COMM_WORLD_SIZE", "2"}}), 2) << output_;
  EXPECT_TRUE(says("OMPI_COMM_WORLD_RANK is not set"));
  EXPECT_EQ(alone({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}), 2);
  EXPECT_TRUE(says("want srun --mpi=pmix"));
}

TEST_F(Mpirun, AnotherNumberThanDevicesSaysIsRefused) {
  EXPECT_EQ(on(3, train({"--devices", "2"})), 2) << output_;
  EXPECT_EQ(times("--devices 2: "), 1) << output_;
  EXPECT_TRUE(says("mpirun has started 3 processes"));
  EXPECT_EQ(on(2, train({"--devices", "2"})), 0) << output_;
}

TEST_F(Mpirun, AnotherRecipeOnOneProcessIsNamedWithBothValues) {
  EXPECT_EQ(on_two(train(), {}, train({"--seed=9"})), 2) << output_;
  EXPECT_TRUE(says("the processes of the run differ in recipe: rank 0 of 2"));
  EXPECT_TRUE(says("rank 1 of 2"));
  EXPECT_TRUE(says("seed = 9"));
  EXPECT_EQ(on_two(train(), {}, train({"--resume=auto"})), 2) << output_;
  EXPECT_TRUE(says("the processes of the run differ in --resume: rank 0 of 2"));
  EXPECT_EQ(on_two(train(), {}, train({"--seed=9"})), 2) << output_;
  EXPECT_EQ(times("differ in recipe"), 1) << output_;
}

TEST_F(Mpirun, AnotherDataFileOrNoneOnOneHostIsNamed) {
  const auto elsewhere = folder_ / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::filesystem::copy_file(folder_ / "shared.toml", elsewhere / "shared.toml");
  const Words there{"-C", elsewhere.string()};
  EXPECT_EQ(on_two(train(), there, train()), 3) << output_;
  EXPECT_TRUE(says("mxtape: rank 1 of 2"));
  EXPECT_EQ(times("data.h5: no such token file"), 1) << output_;
  TokenFile data = tiny_data();
  data.train.narrow.pop_back();
  TokenFile(data).write(elsewhere / "data.h5");
  EXPECT_EQ(on_two(train(), there, train()), 3) << output_;
  EXPECT_TRUE(says("differ in the content of data.h5"));
  EXPECT_TRUE(says("copy one file to all hosts"));
}

TEST_F(Mpirun, WhatTrainInitNamesIsWantedOnRankZerosHostAlone) {
  ASSERT_EQ(run(train({"--name=base"})), 0) << output_;
  const auto elsewhere = folder_ / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  for (const char* const file : {"shared.toml", "data.h5"})
    std::filesystem::copy_file(folder_ / file, elsewhere / file);
  const Words there{"-C", elsewhere.string()}, words = train({"--name=tuned", "--train.init=runs/base"});
  Words shorter = words, longer = words;
  shorter.push_back("--train.steps=4");
  EXPECT_EQ(on_two(shorter, there, shorter), 0) << output_;
  std::filesystem::remove_all(folder_ / "runs/base");
  longer.insert(longer.end(), {"--resume", "auto", "--allow-change", "train.steps"});
  EXPECT_EQ(on_two(longer, there, longer), 0) << output_;
  EXPECT_TRUE(std::filesystem::exists(last("tuned")));
}

TEST_F(Mpirun, AnotherInstructionSetOnOneProcessIsRefused) {
  const int code = on_two(train(), {"MXTAPE_MAX_CPU=baseline"}, train());
  if (code == 0) GTEST_SKIP() << "this machine has no AVX2";
  EXPECT_EQ(code, 6) << output_;
  EXPECT_TRUE(says("differ in arithmetic"));
}

TEST_F(Mpirun, ProcessesWithOtherInstructionSetsTrainTogetherToTheSameBits) {
  if (!cpu::has_tier(cpu::Tier::avx512)) GTEST_SKIP() << "this machine has one set";
  ::setenv("MXTAPE_MAX_CPU", "avx512_bf16", 1);
  EXPECT_EQ(run(train({"--name=alone"})), 0) << output_;
  EXPECT_EQ(on_two(train({"--name=mixed"}), {"MXTAPE_MAX_CPU=avx2"}, train({"--name=mixed"})), 0) << output_;
  ::unsetenv("MXTAPE_MAX_CPU");
  EXPECT_TRUE(same_checkpoint(last("alone"), last("mixed"))) << output_;
}

TEST_F(Mpirun, AKilledProcessEndsTheRunWhichGoesOnToTheSameBits) {
  train_whole();
  Program program(folder_.path(), ranks(2, long_run("killed")), {}, mpirun());
  const auto pids = processes_of(program, 2);
  ASSERT_EQ(pids.size(), 2u) << program.output();
  wait_for_records([&] { return program.running(); }, "killed", 5000);
  ::kill(pids[1], SIGKILL);
  EXPECT_NE(program.wait(), 0);
  wait_for_the_end_of(pids);
  expect_whole("killed");
}

TEST_F(Mpirun, AStoppedProcessIsNamedAfterTheDeadline) {
  train_whole();
  ::setenv("MXTAPE_PEER_TIMEOUT", "4", 1);
  Program program(folder_.path(), ranks(2, long_run("stopped")), {}, mpirun());
  const auto pids = processes_of(program, 2);
  ASSERT_EQ(pids.size(), 2u) << program.output();
  wait_for_records([&] { return program.running(); }, "stopped", 3000);
  ::kill(pids[1], SIGSTOP);
  EXPECT_EQ(program.wait(), int(ExitCode::peer)) << program.output();
  output_ = program.output();
  EXPECT_TRUE(says("for rank 1 ("));
  EXPECT_EQ(times("mxtape: rank"), 1) << output_;
  ::unsetenv("MXTAPE_PEER_TIMEOUT");
  expect_whole("stopped");
}

TEST_F(Mpirun, ASignalToTheLauncherSavesOnceAndEndsWith75) {
  train_whole();
  Program program(folder_.path(), ranks(2, long_run("signal")), {}, mpirun());
  ASSERT_EQ(processes_of(program, 2).size(), 2u) << program.output();
  wait_for_records([&] { return program.running(); }, "signal", 1000);
  program.send(SIGUSR1);
  EXPECT_EQ(program.wait(), 75) << program.output();
  output_ = program.output();
  EXPECT_EQ(times("mxtape: stopped by"), 1) << output_;
  expect_whole("signal");
}

}  // namespace
}  // namespace mxtape::test
