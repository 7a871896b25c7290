#include "dist/pairs/pair_group.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/support/forked_ranks.h"

namespace mxtape::test {
namespace {

using Clock = std::chrono::steady_clock;

/// In a rank: a broken promise ends the run with a code that no test expects.
void demand(bool ok, const char* what) {
  if (!ok) fail(ExitCode(99), "not so: {}", what);
}

std::string text_of(int rank, int turn, std::size_t bytes) {
  std::string text(bytes, 0);
  auto state = std::uint32_t(rank * 1000 + turn);
  for (char& c : text) c = char((state = state * 1664525u + 1013904223u) >> 24);
  return text;
}

TEST(PairGroup, EachRankGetsEverybodysBytes) {
  for (const int size : {2, 3, 5, 16}) {
    ForkedRanks ranks(size, [](PairGroup& group) {
      const Place& place = group.place();
      demand(place.local_size == place.size && place.local_rank == place.rank, "all are on this host");
      const std::size_t sizes[] = {0, 1, 100, std::size_t{1} << 19, 7};
      for (int turn = 0; turn < 10; ++turn) {
        const auto size_of = [&](int rank) { return sizes[std::size_t(rank + turn) % std::size(sizes)]; };
        const auto all = group.all_gather(text_of(place.rank, turn, size_of(place.rank)));
        demand(int(all.size()) == place.size, "one text a rank");
        for (int rank = 0; rank < place.size; ++rank)
          demand(all[std::size_t(rank)] == text_of(rank, turn, size_of(rank)), "the rank's text");
      }
    });
    EXPECT_EQ(ranks.wait(), 0) << ranks.output();
  }
}

Tensor tensor_of(std::int64_t count) {
  return Tensor(std::shared_ptr<void>(std::malloc(std::size_t(count) * 4), std::free), {count}, DType::f32);
}

Tensor filled(std::int64_t count, int from, int to, int place) {
  const Tensor x = tensor_of(count);
  for (std::int64_t i = 0; i < count; ++i)
    static_cast<std::int32_t*>(x.raw())[i] = std::int32_t(i * 31 + from * 7 + to * 5 + place);
  return x;
}

/// Every rank to every other: elements by place and ranks, none for some pairs.
std::int64_t count_of(int place, int from, int to) {
  constexpr std::int64_t large = std::int64_t{1} << 19;  // 2 MiB: more than a connection holds
  return place == 1 ? large + from : place == 2 && (from + to) % 2 ? 0 : 1 + 100 * from + to;
}

struct Exchanged {
  std::vector<Part> send, receive, want;
  Exchanged(const Place& place, int at) {
    for (int rank = 0; rank < place.size; ++rank) {
      if (rank == place.rank) continue;
      if (const auto count = count_of(at, place.rank, rank))
        send.push_back({rank, filled(count, place.rank, rank, at)});
      if (const auto count = count_of(at, rank, place.rank)) {
        receive.push_back({rank, tensor_of(count)});
        want.push_back({rank, filled(count, rank, place.rank, at)});
      }
    }
  }
  bool arrived() const {
    for (std::size_t i = 0; i < want.size(); ++i)
      if (std::memcmp(receive[i].data.raw(), want[i].data.raw(), std::size_t(want[i].data.bytes())) != 0)
        return false;
    return true;
  }
};

TEST(PairGroup, TensorsArriveWhateverTheirSizeAndTheOrderOfFinishing) {
  for (const int size : {2, 4}) {
    ForkedRanks ranks(size, [](PairGroup& group) {
      for (int turn = 0; turn < 3; ++turn) {
        std::vector<Exchanged> all;
        for (int place = 0; place < 4; ++place) all.emplace_back(group.place(), place);
        for (int place = 0; place < 4; ++place)
          group.start(place, all[std::size_t(place)].send, all[std::size_t(place)].receive);
        group.all_gather("in between");
        for (const int place : {2, 0, 3, 1}) {
          group.finish(place);
          demand(all[std::size_t(place)].arrived(), "what was sent has come");
        }
      }
      group.all_gather("the end");
    });
    EXPECT_EQ(ranks.wait(), 0) << ranks.output();
  }
}

TEST(PairGroup, ProgressMovesTensorsBeforeAnyoneWaits) {
  ForkedRanks ranks(2, [](PairGroup& group) {
    const Exchanged large(group.place(), 1);
    group.start(1, large.send, large.receive);
    const auto move = [&] { group.progress(), ::usleep(1000); };
    for (int i = 0; i < 10'000 && !large.arrived(); ++i) move();
    for (int i = 0; i < 1000; ++i) move();  // the other has not got all yet
    demand(large.arrived(), "it has come while nobody waited");
    group.all_gather("both have it");
    group.finish(1);
  });
  EXPECT_EQ(ranks.wait(), 0) << ranks.output();
}

TEST(PairGroup, PartsThatDoNotMatchAreNamed) {
  ForkedRanks ranks(2, [](PairGroup& group) {
    const int other = 1 - group.place().rank;
    const std::vector<Part> send{{other, tensor_of(10)}}, receive{{other, tensor_of(11)}};
    group.start(0, send, receive);
    group.finish(0);
  });
  EXPECT_EQ(ranks.wait(), 1) << ranks.output();
  EXPECT_EQ(ranks.times("40 bytes are sent in exchange 0, where 44 in exchange 0 are wanted"), 1)
      << ranks.output();
}

/// A rank that ends in one of the ways that an operating system knows.
[[noreturn]] void end_by(int signal, int code) {
  if (signal) ::raise(signal);
  ::_exit(code);
}

TEST(PairGroup, ADeathIsNamedOnceAndAtOnceWithHowItCame) {
  const std::tuple<int, int, const char*> ends[] = {
      {SIGKILL, 0, "was killed by SIGKILL, by hand or as memory"},
      {SIGSEGV, 0, "was killed by SIGSEGV"},
      {SIGRTMIN + 1, 0, "was killed by signal "},
      {0, 3, "ended with exit code 3"},
      {0, 0, "ended with exit code 0"}};
  for (const auto& [signal, code, how] : ends)
    for (const bool in_exchange : {false, true})
      for (const int dying : {1, 3}) {
        if (signal != SIGKILL && in_exchange != (dying == 3)) continue;
        ForkedRanks ranks(4, [&, signal = signal, code = code](PairGroup& group) {
          group.all_gather("");
          const Exchanged large(group.place(), 1);
          if (in_exchange) group.start(1, large.send, large.receive);
          if (group.place().rank == dying) end_by(signal, code);
          if (in_exchange) group.finish(1);
          group.all_gather("");
          demand(false, "it ends in an error");
        });
        const auto begin = Clock::now();
        EXPECT_EQ(ranks.wait(), 7) << ranks.output();
        EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8));
        EXPECT_EQ(ranks.times("mxtape: "), 1) << ranks.output();
        EXPECT_EQ(ranks.times(fmt::format("mxtape: rank {} of 4 (process ", dying)), 1) << ranks.output();
        EXPECT_EQ(ranks.times(how), 1) << ranks.output();
      }
}

// progress() is in the middle of a device's work: it is the end that says so.
TEST(PairGroup, ARankThatIsLostWhileOthersComputeIsNamedInTheEnd) {
  ForkedRanks ranks(2, [](PairGroup& group) {
    const Exchanged large(group.place(), 1);
    group.start(1, large.send, large.receive);
    if (group.place().rank == 1) ::raise(SIGKILL);
    for (int i = 0; i < 300; ++i) group.progress(), ::usleep(1000);
    group.finish(1);
    demand(false, "it ends in an error");
  });
  EXPECT_EQ(ranks.wait(), 7) << ranks.output();
  EXPECT_EQ(ranks.times("rank 1 of 2"), 1) << ranks.output();
}

// Rank 0 wants nothing of rank 2, but of rank 1, which wants something of it.
TEST(PairGroup, ADeathThatKeepsAnotherRankWaitingIsNamed) {
  ForkedRanks ranks(3, [](PairGroup& group) {
    const int rank = group.place().rank;
    const std::vector<Part> none, from_next{{rank + 1, tensor_of(4)}}, to_first{{0, tensor_of(4)}};
    if (rank == 2) ::raise(SIGKILL);
    if (rank == 1) group.start(0, none, from_next), group.finish(0);
    group.start(1, rank == 1 ? to_first : none, rank == 1 ? none : from_next);
    group.finish(1);
  });
  const auto begin = Clock::now();
  EXPECT_EQ(ranks.wait(), 7) << ranks.output();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8)) << "before the deadline";
  EXPECT_EQ(ranks.times("mxtape: rank 2 of 3"), 1) << ranks.output();
}

TEST(PairGroup, ADeathIsNamedAndNotWhatOthersMakeOfIt) {
  for (const int hears : {0, 2}) {  // NCCL's side of it
    ForkedRanks ranks(3, [hears](PairGroup& group) {
      group.all_gather("");
      if (group.place().rank == 1) ::usleep(50'000), ::raise(SIGKILL);
      if (group.place().rank == hears) fail(ExitCode::peer, "the network says no");
      group.all_gather("");
    });
    EXPECT_EQ(ranks.wait(), 7) << ranks.output();
    EXPECT_EQ(ranks.times("mxtape: "), 1) << ranks.output();
    EXPECT_EQ(ranks.times("mxtape: rank 1 of 3"), 1) << ranks.output();
  }
}

TEST(PairGroup, NoRankOutlivesRankZero) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans come here
  for (const bool stopped : {false, true}) {
    ForkedRanks ranks(4, [stopped](PairGroup& group) {
      group.all_gather("");
      const int rank = group.place().rank;
      if (rank == 0) ::usleep(100'000), ::raise(SIGKILL);
      if (rank == 1 && stopped) ::raise(SIGSTOP);
      if (rank == 2) ::sleep(100);  // as in a long step
      group.all_gather("");
    });
    EXPECT_EQ(ranks.wait(), 128 + SIGKILL);
    int ended = 0;
    for (int i = 0; i < 10'000 && ended < 3; ++i, ::usleep(1000))
      ended += ::waitpid(-1, nullptr, WNOHANG) > 0;
    EXPECT_EQ(ended, 3);
    EXPECT_EQ(ranks.output(), "") << "the shell says what became of its process";
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(PairGroup, AStoppedRankIsNamedOnceAfterTheDeadline) {
  for (const int stopped : {1, 2}) {
    ForkedRanks ranks(
        3,
        [stopped](PairGroup& group) {
          group.all_gather("");
          if (group.place().rank == stopped) ::raise(SIGSTOP);
          group.all_gather("");
        },
        1);
    const auto begin = Clock::now();
    EXPECT_EQ(ranks.wait(), 7) << ranks.output();
    EXPECT_GT(Clock::now() - begin, std::chrono::milliseconds(900));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1 + 5));
    EXPECT_EQ(ranks.times("mxtape: "), 1) << ranks.output();
    EXPECT_EQ(ranks.times(fmt::format("waited 1 s, to hear from all, for rank {} (process ", stopped)), 1)
        << ranks.output();
  }
}

TEST(PairGroup, WhoWaitsForAStoppedRankIsNotBlamed) {
  ForkedRanks ranks(
      3,
      [](PairGroup& group) {
        group.all_gather("");
        if (group.place().rank == 2) ::raise(SIGSTOP);
        const std::vector<Part> none, from_last{{2, tensor_of(4)}};
        if (group.place().rank == 1) group.start(0, none, from_last), group.finish(0);
        group.all_gather("");
      },
      1);
  EXPECT_EQ(ranks.wait(), 7) << ranks.output();
  EXPECT_EQ(ranks.times("for rank 2 (process "), 1) << ranks.output();
}

TEST(PairGroup, WhatRankZeroSleepsThroughIsNobodysFault) {
  ForkedRanks ranks(
      3,
      [](PairGroup& group) {
        group.all_gather("");
        if (group.place().rank == 1) {
          ::kill(::getppid(), SIGSTOP), ::usleep(2'500'000);
          ::kill(::getppid(), SIGCONT), ::usleep(300'000);
        }
        group.all_gather("");
      },
      1);
  EXPECT_EQ(ranks.wait(), 0) << ranks.output();
}

TEST(PairGroup, TheTrueCauseIsSaidOnceAndEndsAllWithItsCode) {
  for (const int failing : {0, 1, 2}) {
    ForkedRanks ranks(3, [failing](PairGroup& group) {
      group.all_gather(std::string(std::size_t{1} << 20, 'x'));
      if (group.place().rank == failing) fail(ExitCode::resource, "the disk is full");
      group.all_gather(std::string(std::size_t{1} << 20, 'x'));
    });
    EXPECT_EQ(ranks.wait(), 6) << ranks.output();
    EXPECT_EQ(ranks.times("mxtape: "), 1) << ranks.output();
    EXPECT_EQ(
        ranks.times(failing ? fmt::format("mxtape: rank {} of 3 (process ", failing) : "mxtape: the disk"), 1)
        << ranks.output();
  }
}

TEST(PairGroup, WordsAreHeardWhenTheirRankHasLongGone) {
  for (const ExitCode code : {ExitCode::peer, ExitCode::resource}) {
    ForkedRanks ranks(3, [code](PairGroup& group) {
      group.all_gather("");
      if (group.place().rank == 2) fail(code, "the network says no");
      if (group.place().rank == 0) ::usleep(1'500'000);  // as in a long step
      group.all_gather("");
    });
    EXPECT_EQ(ranks.wait(), int(code)) << ranks.output();
    EXPECT_EQ(ranks.times("mxtape: "), 1) << ranks.output();
    EXPECT_EQ(ranks.times("): the network says no"), 1) << ranks.output();
  }
}

TEST(PairGroup, ARankThatLeavesAfterTheLastWordIsNotMissed) {
  for (int i = 0; i < 20; ++i) {
    ForkedRanks ranks(4, [](PairGroup& group) {
      group.all_gather(std::string(100'000, 'e'));
      ::usleep(unsigned(group.place().rank) * 5000);
    });
    EXPECT_EQ(ranks.wait(), 0) << ranks.output();
  }
}

TEST(ForkRanks, WantsAProcessOfOneThread) {
  std::mutex held;
  held.lock();
  std::thread other([&] { const std::lock_guard until(held); });
  EXPECT_THROW(fork_ranks(2), Error);
  held.unlock();
  other.join();
}

}  // namespace
}  // namespace mxtape::test
