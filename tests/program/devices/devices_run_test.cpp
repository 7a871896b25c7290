// What a user sees who trains with --devices N.
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/program/devices/ranks.h"

namespace mxtape::test {
namespace {

using DevicesRun = Ranks;

TEST_F(DevicesRun, AnyNumberOfProcessesLeavesTheCheckpointsAndRecordsOfOne) {
  const auto words = [&](const char* out) {
    return train({fmt::format("--train.out={}", out), "--train.strands=8", "--train.batch_size=1"});
  };
  ASSERT_EQ(run(words("alone")), 0) << output_;
  const auto bytes = [&](const char* out, std::int64_t step) {
    return read_whole(folder_ / fmt::format("{}/shared/checkpoints/step_{:08}.h5", out, step));
  };
  const auto losses = [&](const char* out) {
    std::string all;
    std::ifstream file(folder_ / out / "shared/metrics.jsonl");
    for (std::string line; std::getline(file, line);) all += line.substr(0, line.find("\"ms\"")) + "\n";
    return all;
  };
  for (const auto& [count, out] : {std::pair{1, "one"}, std::pair{2, "two"}, std::pair{3, "three"},
                                   std::pair{4, "four"}, std::pair{5, "five"}, std::pair{8, "eight"}}) {
    ASSERT_EQ(on(count, words(out)), 0) << output_;
    EXPECT_EQ(times("folder  "), 1) << output_;
    if (count > 1) {
      EXPECT_TRUE(says(fmt::format("{} processes on 1 host; 8 strands in ", count)));
    }
    EXPECT_TRUE(bytes(out, 4) == bytes("alone", 4)) << output_;
    EXPECT_TRUE(bytes(out, 8) == bytes("alone", 8)) << output_;
    EXPECT_EQ(losses(out), losses("alone"));
  }
  // The same words on another number of processes: the same bytes.
  const auto first = bytes("two", 8);
  std::filesystem::remove_all(folder_ / "two");
  ASSERT_EQ(on(3, words("two")), 0) << output_;
  EXPECT_TRUE(bytes("two", 8) == first);
}

TEST_F(DevicesRun, OneThreadAProcessOrTwoGiveTheSameBits) {
  ASSERT_EQ(on(2, train({"--name=one", "--compute.threads=1"})), 0) << output_;
  ASSERT_EQ(on(2, train({"--name=two", "--compute.threads=2"})), 0) << output_;
  EXPECT_TRUE(same_checkpoint(last("one"), last("two"))) << output_;
}

TEST_F(DevicesRun, ARunGoesOnOnAnotherNumberOfProcesses) {
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

TEST_F(DevicesRun, MoreProcessesThanStrandsAreRefusedWithWhatWouldDo) {
  EXPECT_EQ(on(2, train({"--train.strands=1", "--train.accumulation=4"})), 2) << output_;
  EXPECT_TRUE(
      says("train.strands = 1: one device can share a step, and there are 2; want, say, --train.strands=2 "
           "--train.accumulation=2"));
  EXPECT_EQ(times("train.strands = 1"), 1) << output_;
}

TEST_F(DevicesRun, AnErrorThatAllHaveIsSaidOnce) {
  expect_said_once([&](int count, const Words& words) { return on(count, words); });
}

TEST_F(DevicesRun, TorchrunsVariablesAreRefusedWithWhatWouldDo) {
  const Words words = train({"--devices", "2"});
  for (const auto& [rank, begin] :
       {std::pair{"0", "mxtape: RANK=0"}, std::pair{"1", "mxtape: rank 1: RANK=1"}}) {
    ::setenv("RANK", rank, 1), ::setenv("WORLD_SIZE", "2", 1);
    EXPECT_EQ(run(rank == std::string("0") ? words : train()), 2) << output_;
    ::unsetenv("RANK"), ::unsetenv("WORLD_SIZE");
    EXPECT_TRUE(says(fmt::format("{} and WORLD_SIZE=2, as torchrun sets them", begin)));
    EXPECT_TRUE(says("Say --devices 2 without torchrun"));
  }
}

/// Inodes of the sockets that a process holds.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> all;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone))
    if (const std::string to = std::filesystem::read_symlink(entry, gone).string();
        to.starts_with("socket:["))
      all.insert(to.substr(8, to.size() - 9));
  return all;
}

TEST_F(DevicesRun, NothingListensAndNobodyCanConnect) {
  Program program(folder_.path(), on_devices(3, long_run("open")));
  const auto pids = processes_of(program, 3);
  ASSERT_EQ(pids.size(), 3u) << program.output();
  wait_for_records([&] { return program.running(); }, "open", 1000);
  for (const pid_t pid : pids) {
    const auto sockets = sockets_of(pid);
    EXPECT_EQ(sockets.size(), pid == pids[0] ? 4u : 3u) << "messages, and tensors with each other";
    for (const char* const table : {"net/tcp", "net/tcp6", "net/udp", "net/udp6"}) {
      std::istringstream lines(read_proc(pid, table));
      for (std::string line, word; std::getline(lines, line);)
        for (std::istringstream words(line); words >> word;) EXPECT_FALSE(sockets.contains(word)) << line;
    }
    std::istringstream lines(read_proc(pid, "net/unix"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number, references, protocol, flags, type, state, inode, path;
      words >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
      if (sockets.contains(inode)) {
        EXPECT_TRUE(path.empty() && flags == "00000000") << line;
      }
    }
  }
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 75) << program.output();
}

TEST_F(DevicesRun, ADivergenceEndsAllWithItsCodeAndOneMessage) {
  EXPECT_EQ(on(2, train({"--optim.learning_rate=1e30", "--optim.clip_norm=0", "--schedule.warmup_steps=0"})),
            4)
      << output_;
  EXPECT_EQ(times("first seen in"), 1) << output_;
}

// Weights grow by about the learning rate in each step, and E4M3 without a scale ends at 448.
TEST_F(DevicesRun, ARollbackIsSharedToo) {
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

// Rank 0 alone measures, and says so to the others.
TEST_F(DevicesRun, ASwitchIsSharedToo) {
  Recipe recipe = recipe_from_toml(read_whole_text(folder_ / "shared.toml"), "shared.toml");
  recipe.train.steps = 6;
  recipe.telemetry.every = 3;
  recipe.precision.gradients = "mxfp4 round=stochastic";
  recipe.precision.switch_error = 1e-6f;
  recipe.precision.phases = {{.start_rollback = 1, .rules = {{"blocks.*", {"*.dy"}, "bf16", "here"}}}};
  write_atomically(folder_ / "shared.toml", to_toml(recipe));
  ASSERT_EQ(on(1, train({"--name=alone"})), 0) << output_;
  ASSERT_EQ(on(3, train()), 0) << output_;
  EXPECT_EQ(times("the precision phase of rollback 1 begins"), 1) << output_;
  EXPECT_TRUE(same_checkpoint(last("alone", 6), last("shared", 6))) << output_;
}

}  // namespace
}  // namespace mxtape::test
