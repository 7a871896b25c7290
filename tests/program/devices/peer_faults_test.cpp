// Processes that are killed, stopped or signalled in the middle of a run on several.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "tests/program/devices/ranks.h"

namespace mxtape::test {
namespace {

class PeerFaults : public Ranks {
 protected:
  /// A run that has written so many bytes of records.
  struct Running {
    Program program;
    std::vector<pid_t> pids{};
  };
  std::unique_ptr<Running> running(int count, const std::string& name, std::uintmax_t bytes,
                                   const std::vector<int>& ignored_signals = {}) const {
    std::unique_ptr<Running> run(
        new Running{{folder_.path(), on_devices(count, long_run(name)), ignored_signals}});
    run->pids = processes_of(run->program, std::size_t(count));
    EXPECT_EQ(int(run->pids.size()), count) << run->program.output();
    run->pids.resize(std::size_t(count), run->program.pid());
    wait_for_records([&] { return run->program.running(); }, name, bytes);
    return run;
  }
  /// Its exit code; none of its processes is left.
  int end(Running& run) {
    const auto begin = Clock::now();
    const int code = run.program.wait();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8));
    wait_for_the_end_of(run.pids);
    output_ = run.program.output();
    return code;
  }
};

TEST_F(PeerFaults, AKilledProcessIsNamedAndTheRunGoesOnToTheSameBits) {
  train_whole();
  std::mt19937 random(1);
  for (int i = 0; i < 6; ++i) {
    const std::size_t count = i % 2 ? 4 : 2, killed = 1 + random() % (count - 1);
    const std::string name = fmt::format("killed{}", i);
    const std::vector<int> ignored(i == 0, SIGCHLD);  // as some who start programs leave it
    const auto run = running(int(count), name, 200 + random() % 20000, ignored);
    ::kill(run->pids[killed], SIGKILL);
    EXPECT_EQ(end(*run), 7) << output_;
    EXPECT_EQ(times("mxtape: "), 1) << output_;
    EXPECT_TRUE(says(fmt::format("mxtape: rank {} of {} (process {}) was killed by SIGKILL", killed, count,
                                 run->pids[killed])));
    expect_whole(name);
  }
}

TEST_F(PeerFaults, AKilledRankZeroLeavesNoneBehind) {
  train_whole();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans come here, as to init
  for (const int bytes : {1000, 7000}) {
    const std::string name = fmt::format("first{}", bytes);
    const auto run = running(4, name, std::uintmax_t(bytes));
    ::kill(run->pids[0], SIGKILL);
    EXPECT_EQ(run->program.wait(), 128 + SIGKILL);
    for (std::size_t rank = 1; rank < 4; ++rank) ::waitpid(run->pids[rank], nullptr, 0);
    expect_whole(name);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(PeerFaults, AStoppedProcessIsNamedAfterTheDeadline) {
  train_whole();
  ::setenv("MXTAPE_PEER_TIMEOUT", "2", 1);
  for (const std::size_t stopped : {1u, 2u}) {
    const std::string name = fmt::format("stopped{}", stopped);
    const auto run = running(3, name, 3000);
    ::kill(run->pids[stopped], SIGSTOP);
    EXPECT_EQ(end(*run), 7) << output_;
    EXPECT_TRUE(says(fmt::format("for rank {} (process {})", stopped, run->pids[stopped])));
    EXPECT_EQ(times("mxtape: "), 1) << output_;
    expect_whole(name);
  }
  // Who stops the run, stops it: it goes on when rank 0 does.
  const auto run = running(3, "paused", 3000);
  ::kill(run->pids[0], SIGSTOP);
  ::usleep(3'000'000);
  ::kill(run->pids[0], SIGCONT);
  ::unsetenv("MXTAPE_PEER_TIMEOUT");
  run->program.send(SIGUSR1);
  EXPECT_EQ(end(*run), 75) << output_;
  expect_whole("paused");
}

TEST_F(PeerFaults, ASignalToAnyProcessOrToAllSavesOnceAndEndsWith75) {
  train_whole();
  int i = 0;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT})
    for (const int to : {0, 1, -1}) {  // as a terminal's Ctrl-C, which all of them get
      const std::string name = fmt::format("signal{}", i++);
      const auto run = running(2, name, 1000);
      for (const int rank : {0, 1})
        if (to < 0 || to == rank) ::kill(run->pids[std::size_t(rank)], signal);
      EXPECT_EQ(end(*run), 75) << output_;
      EXPECT_EQ(times("mxtape: stopped by"), 1) << output_;
      EXPECT_EQ(times("to go on:"), 1) << output_;
      EXPECT_TRUE(says("--devices 2 --resume auto"));
      expect_whole(name);
    }
}

TEST_F(PeerFaults, AFullDiskOfRankZeroEndsAllWithItsCode) {
  train_whole();
  const auto run = running(3, "full", 3000);
  const rlimit small{4096, 4096};  // of a file
  ASSERT_EQ(::prlimit(run->pids[0], RLIMIT_FSIZE, &small, nullptr), 0);
  EXPECT_EQ(end(*run), 6) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
  expect_whole("full");
  EXPECT_EQ(on(2, train({"--name=nowhere", "--train.out=data.h5"})), 6) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
}

}  // namespace
}  // namespace mxtape::test
