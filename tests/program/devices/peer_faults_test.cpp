// Processes that are killed, stopped or signalled in the middle of a run on several.
#include <algorithm>
#include <random>

#include "tests/program/devices/mpirun.h"

namespace mxtape::test {
namespace {

class PeerFaults : public Mpirun {
 protected:
  /// Long enough to be hit anywhere.
  Words long_run(const std::string& name, const Words& more = {}) const {
    Words words = train({"--name=" + name, "--train.steps=400", "--train.save_every=20", "--train.keep=100",
                         "--schedule.warmup_steps=2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void train_whole() { ASSERT_EQ(run(long_run("whole")), 0) << output_; }
  /// The run ends as the undisturbed one, on one process.
  void expect_whole(const std::string& name) {
    ASSERT_EQ(run(long_run(name, {"--resume", "auto"})), 0) << output_;
    EXPECT_TRUE(same_checkpoint(last("whole", 400), last(name, 400))) << output_;
  }
  /// Waits until the run has written a step's records.
  void wait_for_records(const Program& program, const std::string& name, std::uintmax_t bytes) const {
    const auto file = folder_ / "runs" / name / "metrics.jsonl";
    std::error_code missing;
    while (program.running()) {
      const auto size = std::filesystem::file_size(file, missing);
      if (!missing && size >= bytes) return;
      ::usleep(1000);
    }
  }
};

TEST_F(PeerFaults, AKilledProcessEndsTheRunWhichGoesOnToTheSameBits) {
  train_whole();
  std::mt19937 random(1);
  for (int i = 0; i < 4; ++i) {
    const int count = i % 2 ? 4 : 2;
    const std::string name = fmt::format("killed{}", i);
    Program program(folder_.path(), ranks(count, long_run(name)), {}, mpirun());
    const auto pids = processes_of(program, std::size_t(count));
    ASSERT_EQ(pids.size(), std::size_t(count)) << program.output();
    wait_for_records(program, name, 200 + random() % 20000);
    ::kill(pids[random() % pids.size()], SIGKILL);
    const auto begin = Clock::now();
    EXPECT_NE(program.wait(), 0);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
    const auto left = [&] {
      return std::any_of(pids.begin(), pids.end(), [](pid_t pid) { return ::kill(pid, 0) == 0; });
    };
    while (left() && Clock::now() - begin < std::chrono::seconds(30)) ::usleep(10'000);
    EXPECT_FALSE(left()) << "mpirun has ended, and a process of its has not";
    expect_whole(name);
  }
}

TEST_F(PeerFaults, AStoppedProcessIsNamedAfterTheDeadline) {
  train_whole();
  ::setenv("MXTAPE_PEER_TIMEOUT", "2", 1);
  for (const std::size_t stopped : {0u, 1u}) {
    const std::string name = fmt::format("stopped{}", stopped);
    Program program(folder_.path(), ranks(2, long_run(name)), {}, mpirun());
    const auto pids = processes_of(program, 2);
    ASSERT_EQ(pids.size(), 2u) << program.output();
    wait_for_records(program, name, 3000);
    ::kill(pids[stopped], SIGSTOP);
    const auto begin = Clock::now();
    EXPECT_EQ(program.wait(), int(ExitCode::peer)) << program.output();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2 + 10));
    output_ = program.output();
    EXPECT_TRUE(says(fmt::format("for rank {} (", stopped)));
    EXPECT_EQ(times("mxtape: rank"), 1) << output_;
    expect_whole(name);
  }
  ::unsetenv("MXTAPE_PEER_TIMEOUT");
}

TEST_F(PeerFaults, ASignalToAnyProcessOrToTheLauncherSavesOnceAndEndsWith75) {
  train_whole();
  int i = 0;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT})
    for (const int to : {0, 1, -1}) {
      if (to < 0 && signal != SIGUSR1) continue;  // mpirun kills its processes then, or waits two seconds
      const std::string name = fmt::format("signal{}", i++);
      Program program(folder_.path(), ranks(2, long_run(name)), {}, mpirun());
      const auto pids = processes_of(program, 2);
      ASSERT_EQ(pids.size(), 2u) << program.output();
      wait_for_records(program, name, 1000);
      ::kill(to < 0 ? program.pid() : pids[std::size_t(to)], signal);
      EXPECT_EQ(program.wait(), 75) << program.output();
      output_ = program.output();
      EXPECT_EQ(times("mxtape: stopped by"), 1) << output_;
      EXPECT_EQ(times("to go on:"), 1) << output_;
      expect_whole(name);
    }
}

TEST_F(PeerFaults, AFolderThatRankZeroCannotMakeEndsAllWithItsCode) {
  EXPECT_EQ(on(2, train({"--train.out=data.h5"})), 6) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
}

}  // namespace
}  // namespace mxtape::test
