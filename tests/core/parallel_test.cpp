#include "core/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"

namespace mxtape {
namespace {

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (int count : {1, 2, 3, 5}) {
    set_threads(count);
    for (std::int64_t n : {0, 1, 7, 64, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
      parallel_for(n, 3, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) ++visits[std::size_t(i)];
      });
      for (auto& v : visits) EXPECT_EQ(v, 1);
    }
  }
}

TEST(ParallelFor, CutsDependOnTheShapeOnly) {
  std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> cuts;
  for (int count : {1, 2, 4}) {
    set_threads(count);
    std::mutex mutex;
    cuts.emplace_back();
    parallel_for(1003, 10, [&](std::int64_t begin, std::int64_t end) {
      std::lock_guard lock(mutex);
      cuts.back().insert({begin, end});
    });
  }
  EXPECT_EQ(cuts[0], cuts[1]);
  EXPECT_EQ(cuts[0], cuts[2]);
}

TEST(ParallelFor, ShortJobsInARowDoNotMixTheirRanges) {
  // More threads than most machines have cores, so that workers are late for jobs; some find them asleep.
  set_threads(5);
  for (int job = 1; job <= 4000; ++job) {
    std::array<int, 9> written{};
    const int count = 2 + job % 7;
    parallel_for(count, 1, [&](std::int64_t begin, std::int64_t) { written[std::size_t(begin)] += job; });
    for (int i = 0; i < 9; ++i) ASSERT_EQ(written[std::size_t(i)], i < count ? job : 0) << "range " << i;
    if (job % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ParallelFor, ThrowsABodysExceptionAndGoesOnWorking) {
  set_threads(2);
  EXPECT_THROW(parallel_for(100, 1,
                            [](std::int64_t begin, std::int64_t) {
                              if (begin == 50) throw std::runtime_error("fifty");
                            }),
               std::runtime_error);
  std::atomic<int> sum = 0;
  parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) { sum += int(begin); });
  EXPECT_EQ(sum, 4950);
}

TEST(ParallelFor, NestedCallsRunInPlace) {
  set_threads(2);
  std::atomic<int> sum = 0;
  parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
    const auto here = std::this_thread::get_id();
    parallel_for(10, 1, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      sum += int(end - begin);
    });
  });
  EXPECT_EQ(sum, 40);
}

/// Ends the process: 0 if eight threads, none of which finds a team, all have their loops run.
[[noreturn]] void ask_for_the_team_from_eight_threads() {
  ::alarm(20);  // a job whose team is gone waits for ever
  std::atomic<int> sum = 0;
  std::barrier together(8);
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i)
    askers.emplace_back([&] {
      together.arrive_and_wait();
      parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) { sum += int(begin); });
    });
  for (auto& asker : askers) asker.join();
  std::_Exit(sum == 8 * 4950 ? 0 : 6);
}

TEST(ParallelForDeathTest, ManyThreadsMayBeTheFirstToAsk) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process that has no team
  for (int i = 0; i < 20; ++i)
    ASSERT_EXIT(ask_for_the_team_from_eight_threads(), testing::ExitedWithCode(0), "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadows need the address space
/// Ends the process: 0 if 1,000 threads, of which the stacks of a few fit, are an Error(resource), and those
/// that there were work on.
[[noreturn]] void start_too_many_threads() {
  set_threads(2);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr std::int64_t room = 100 << 20;
  const auto bytes = rlim_t(pages * ::sysconf(_SC_PAGESIZE) + room);
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  try {
    set_threads(1000);
    std::_Exit(3);
  } catch (const Error& e) {
    if (e.code() != ExitCode::resource || std::string(e.what()).find(" of 1000 ") == std::string::npos)
      std::_Exit(4);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  if (sigismember(&before, SIGINT) != sigismember(&after, SIGINT)) std::_Exit(5);
  std::atomic<int> sum = 0;
  parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) { sum += int(begin); });
  std::_Exit(sum == 4950 && threads() == 2 ? 0 : 6);
}

TEST(ParallelForDeathTest, AThreadThatCannotBeStartedIsAnErrorAndThoseThatThereWereWorkOn) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // no team of another test's threads
  EXPECT_EXIT(start_too_many_threads(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace mxtape
