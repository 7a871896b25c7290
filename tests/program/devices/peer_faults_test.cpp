// Processes that are killed, stopped or signalled in the middle of a run on several.
#include <sys/resource.h>

#include <algorithm>
#include <random>

#include "tests/program/devices/ranks.h"

namespace mxtape::test {
namespace {

class PeerFaults : public Ranks {
 protected:
  using Codes = std::vector<int>;
  void wait_for(const RankProcesses& run, const std::string& name, std::uintmax_t bytes) const {
    wait_for_records([&] { return run.running(); }, name, bytes);
  }
};

TEST_F(PeerFaults, AKilledProcessIsNamedAndTheRunGoesOnToTheSameBits) {
  train_whole();
  std::mt19937 random(1);
  for (int i = 0; i < 6; ++i) {
    const std::size_t count = i % 2 ? 4 : 2, killed = random() % count;
    const std::string name = fmt::format("killed{}", i);
    RankProcesses run = start(int(count), long_run(name));
    wait_for(run, name, 200 + random() % 20000);
    run[killed].send(SIGKILL);
    const auto begin = Clock::now();
    Codes want(count, 7);
    want[killed] = 128 + SIGKILL;
    EXPECT_EQ(run.wait(), want) << run.output();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
    output_ = run.output();
    EXPECT_EQ(times("mxtape: rank"), 1) << output_;
    EXPECT_TRUE(says(fmt::format("): rank {} of {} (", killed, count)));
    EXPECT_TRUE(says("is gone: its connection has ended"));
    expect_whole(name);
  }
}

TEST_F(PeerFaults, AStoppedProcessIsNamedAfterTheDeadline) {
  train_whole();
  for (const std::size_t stopped : {0u, 1u, 2u}) {
    const std::string name = fmt::format("stopped{}", stopped);
    RankProcesses run = start(std::vector<Rank>(3, {long_run(name), {"MXTAPE_PEER_TIMEOUT=2"}}));
    wait_for(run, name, 3000);
    run[stopped].send(SIGSTOP);
    const auto begin = Clock::now();
    for (const std::size_t rank : {0u, 1u, 2u}) {
      if (rank == stopped) continue;
      EXPECT_EQ(run[rank].wait(), 7) << run.output();
    }
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2 + 5));
    output_ = run.output();
    EXPECT_TRUE(says(fmt::format("for rank {} (", stopped)));
    EXPECT_EQ(times("mxtape: rank"), 1) << output_;
    // It ends by itself once it goes on, and says nothing of its own.
    run[stopped].send(SIGCONT);
    EXPECT_EQ(run[stopped].wait(), 7);
    output_ = run.output();
    EXPECT_EQ(times("mxtape: rank"), 1) << output_;
    expect_whole(name);
  }
}

TEST_F(PeerFaults, ASignalToAnyProcessOrToAllSavesOnceAndEndsWith75) {
  train_whole();
  int i = 0;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT})
    for (const int to : {0, 1, -1}) {
      const std::string name = fmt::format("signal{}", i++);
      RankProcesses run = start(2, long_run(name));
      wait_for(run, name, 1000);
      for (const int rank : {0, 1})
        if (to < 0 || to == rank) run[std::size_t(rank)].send(signal);
      EXPECT_EQ(run.wait(), (Codes{75, 75})) << run.output();
      output_ = run.output();
      EXPECT_EQ(times("mxtape: stopped by"), 1) << output_;
      EXPECT_EQ(times("to go on:"), 1) << output_;
      expect_whole(name);
    }
}

TEST_F(PeerFaults, AFullDiskOfRankZeroEndsAllWithItsCode) {
  train_whole();
  RankProcesses run = start(3, long_run("full"));
  wait_for(run, "full", 3000);
  const rlimit small{4096, 4096};  // of a file
  ASSERT_EQ(::prlimit(run[0].pid(), RLIMIT_FSIZE, &small, nullptr), 0);
  EXPECT_EQ(run.wait(), (Codes{6, 6, 6})) << run.output();
  output_ = run.output();
  EXPECT_EQ(times("mxtape: "), 1) << output_;
  expect_whole("full");
  EXPECT_EQ(on(2, train({"--name=nowhere", "--train.out=data.h5"})), 6) << output_;
  EXPECT_EQ(times("mxtape: "), 1) << output_;
}

}  // namespace
}  // namespace mxtape::test
