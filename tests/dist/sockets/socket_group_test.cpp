#include "dist/sockets/socket_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/forked_ranks.h"

namespace mxtape::test {
namespace {

using Codes = std::vector<int>;
using Clock = std::chrono::steady_clock;

/// In a child: a broken promise ends it with a code that no test expects.
void demand(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::fflush(nullptr);
  ::_exit(99);
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string text_of(int rank, int turn, std::size_t bytes) {
  std::string text(bytes, 0);
  auto state = std::uint32_t(rank * 1000 + turn);
  for (char& c : text) c = char((state = state * 1664525u + 1013904223u) >> 24);
  return text;
}

void gather_many(SocketGroup& group) {
  const Place& place = group.place();
  demand(place.local_size == place.size, "all are on this host");
  const std::size_t sizes[] = {0, 1, 100, std::size_t{1} << 20, 7};
  for (int turn = 0; turn < 10; ++turn) {
    const auto size_of = [&](int rank) { return sizes[std::size_t(rank + turn) % std::size(sizes)]; };
    const auto all = group.all_gather(text_of(place.rank, turn, size_of(place.rank)));
    demand(int(all.size()) == place.size, "one text a rank");
    for (int rank = 0; rank < place.size; ++rank)
      demand(all[std::size_t(rank)] == text_of(rank, turn, size_of(rank)), "the rank's text");
  }
}

TEST(SocketGroup, EachRankGetsEverybodysBytesOverIPv4AndIPv6) {
  for (const char* host : {"", "127.0.0.1", "::1"})
    for (const int size : {2, 3, 5}) {
      ForkedRanks ranks;
      ranks.start_all(size, gather_many, 20, test_rendezvous(host));
      EXPECT_EQ(ranks.wait(), Codes(std::size_t(size))) << host << " " << ranks.output();
    }
}

TEST(SocketGroup, RanksMeetInWhateverOrderTheyStart) {
  ForkedRanks ranks;
  const Rendezvous at = test_rendezvous();
  for (const int rank : {3, 1, 0, 2}) {
    ranks.start({.rank = rank, .size = 4, .host = {}, .launcher = {}}, at, 20, gather_many);
    ::usleep(150'000);
  }
  EXPECT_EQ(ranks.wait(), Codes(4)) << ranks.output();
}

TEST(SocketGroup, RunsThatShareTheirPortsAreKeptApart) {
  std::vector<std::unique_ptr<ForkedRanks>> runs;
  const Rendezvous first = test_rendezvous();
  for (int run = 0; run < 3; ++run) {
    Rendezvous at = test_rendezvous();
    at.first_port = first.first_port;
    runs.push_back(std::make_unique<ForkedRanks>());
    runs.back()->start_all(
        3,
        [run](SocketGroup& group) {
          for (const auto& text : group.all_gather(std::to_string(run)))
            demand(text == std::to_string(run), "nobody of another run");
        },
        20, at);
  }
  for (auto& run : runs) EXPECT_EQ(run->wait(), Codes(3)) << run->output();
}

TEST(SocketGroup, StrangersWhoConnectAreDroppedAndTheOthersMeet) {
  const Rendezvous at = test_rendezvous();
  ForkedRanks ranks;
  const auto start = [&](int rank) {
    ranks.start({.rank = rank, .size = 2, .host = {}, .launcher = {}}, at, 20, gather_many);
  };
  start(0);
  const Address port = resolve("").front().at(at.first_port);
  std::vector<Socket> strangers;
  const auto connect = [&] {
    Socket socket;
    for (int i = 0; i < 500 && !socket; ++i, ::usleep(10'000)) socket = connect_to(port, 1);
    return socket;
  };
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(connect());
    ASSERT_TRUE(bool(strangers.back()));
    std::string bytes = text_of(i, 0, random() % 400);
    if (i == 0) bytes = "GET / HTTP/1.1\r\n\r\n";
    const Hello other(at.token + 1, 1, 2, 1, "elsewhere");
    if (i == 1) bytes.assign(reinterpret_cast<const char*>(&other), sizeof other);
    if (i == 2) bytes.assign(reinterpret_cast<const char*>(&other), 50);  // and then silence
    if (!bytes.empty()) strangers.back().write(bytes.data(), std::int64_t(bytes.size()));
    if (i % 2) strangers.pop_back();
  }
  start(1);
  EXPECT_EQ(ranks.wait(), Codes(2)) << ranks.output();
}

TEST(SocketGroup, ARankThatNeverComesIsNamed) {
  const Rendezvous at = test_rendezvous();
  ForkedRanks ranks;
  for (const int rank : {0, 2})
    ranks.start({.rank = rank, .size = 4, .host = {}, .launcher = {}}, at, 1, gather_many);
  EXPECT_EQ(ranks.wait(), (Codes{7, 7}));
  EXPECT_NE(ranks.output(0).find("for ranks 1, 3 of 4 to start"), std::string::npos) << ranks.output();
  EXPECT_EQ(ranks.output(1), "") << "rank 0 says it";
  ForkedRanks alone;
  alone.start({.rank = 1, .size = 2, .host = {}, .launcher = {}}, test_rendezvous(), 1, gather_many);
  EXPECT_EQ(alone.wait(), Codes{7});
  EXPECT_NE(alone.output().find("looked 2 s for rank 0 at this host, ports"), std::string::npos)
      << alone.output();
}

TEST(SocketGroup, TwoOfOneRankOrAnotherNumberOfThemEndAllWithOneMessage) {
  const auto run = [](const std::vector<std::pair<int, int>>& places) {
    const Rendezvous at = test_rendezvous();
    auto ranks = std::make_unique<ForkedRanks>();
    for (const auto& [rank, size] : places)
      ranks->start({.rank = rank, .size = size, .host = {}, .launcher = {}}, at, 20, gather_many);
    return ranks;
  };
  const auto twice = run({{0, 3}, {1, 3}, {1, 3}});
  EXPECT_EQ(twice->wait(), (Codes{2, 2, 2})) << twice->output();
  EXPECT_EQ(times(twice->output(), "two processes say that they are rank 1 of 3"), 1) << twice->output();
  const auto other = run({{0, 3}, {1, 3}, {2, 4}});
  EXPECT_EQ(other->wait(), (Codes{2, 2, 2})) << other->output();
  EXPECT_EQ(times(other->output(), "differ in their number: rank 0"), 1) << other->output();
  EXPECT_EQ(times(other->output(), "one of 4"), 1) << other->output();
}

TEST(SocketGroup, AKilledRankIsNamedOnceAndAtOnce) {
  for (const int killed : {0, 1, 3}) {
    ForkedRanks ranks;
    ranks.start_all(4, [killed](SocketGroup& group) {
      group.all_gather("");
      if (group.place().rank == killed) ::raise(SIGKILL);
      group.all_gather("");
      demand(false, "the gather ends in an error");
    });
    const auto begin = Clock::now();
    Codes want(4, 7);
    want[std::size_t(killed)] = 128 + SIGKILL;
    EXPECT_EQ(ranks.wait(), want) << ranks.output();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8));
    EXPECT_EQ(times(ranks.output(), "mxtape: rank"), 1) << ranks.output();
    EXPECT_EQ(times(ranks.output(), fmt::format("): rank {} of 4 (", killed)), 1) << ranks.output();
    EXPECT_NE(ranks.output().find("is gone: its connection has ended"), std::string::npos) << ranks.output();
  }
}

TEST(SocketGroup, AStoppedRankIsNamedOnceAfterTheDeadline) {
  for (const int stopped : {0, 2}) {
    ForkedRanks ranks;
    ranks.start_all(
        3,
        [stopped](SocketGroup& group) {
          group.all_gather("");
          if (group.place().rank == stopped) ::raise(SIGSTOP);
          group.all_gather("");
        },
        2);
    const auto begin = Clock::now();
    for (int rank = 0; rank < 3; ++rank) {
      int status = 0;
      if (rank == stopped) continue;
      ::waitpid(ranks.pid(rank), &status, WUNTRACED);
      EXPECT_EQ(WEXITSTATUS(status), 7) << ranks.output();
    }
    const auto took = Clock::now() - begin;
    EXPECT_GT(took, std::chrono::milliseconds(1500));
    EXPECT_LT(took, std::chrono::seconds(2 + 5));
    EXPECT_EQ(times(ranks.output(), "mxtape: rank"), 1) << ranks.output();
    EXPECT_NE(ranks.output().find(fmt::format("to hear from all, for rank {} (", stopped)), std::string::npos)
        << ranks.output();
    // Once it goes on, it ends by itself.
    ::kill(ranks.pid(stopped), SIGCONT);
    int status = 0;
    ::waitpid(ranks.pid(stopped), &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(times(ranks.output(), "mxtape: rank"), 1) << ranks.output();
  }
}

TEST(SocketGroup, TheTrueCauseIsSaidOnceAndEndsAll) {
  for (const int failing : {0, 1, 2}) {
    ForkedRanks ranks;
    ranks.start_all(3, [failing](SocketGroup& group) {
      group.all_gather(std::string(std::size_t{1} << 20, 'x'));
      if (group.place().rank == failing) fail(ExitCode::resource, "the disk is full");
      group.all_gather(std::string(std::size_t{1} << 20, 'x'));
    });
    Codes want(3, 7);
    want[std::size_t(failing)] = 6;
    EXPECT_EQ(ranks.wait(), want) << ranks.output();
    EXPECT_EQ(times(ranks.output(), "mxtape: "), 1) << ranks.output();
    EXPECT_NE(ranks.output(failing).find("): the disk is full"), std::string::npos) << ranks.output();
  }
}

TEST(SocketGroup, ARankThatLeavesAfterTheLastWordIsNotMissed) {
  for (int i = 0; i < 20; ++i) {
    ForkedRanks ranks;
    ranks.start_all(4, [](SocketGroup& group) {
      group.all_gather("end");
      ::usleep(unsigned(group.place().rank) * 5000);
    });
    EXPECT_EQ(ranks.wait(), Codes(4)) << ranks.output();
  }
}

}  // namespace
}  // namespace mxtape::test
