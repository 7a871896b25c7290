#include "dist/together.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/thread_ranks.h"

namespace mxtape::test {
namespace {

/// What each rank throws: "code: text", "told code", or "".
std::vector<std::string> thrown_on(int ranks, const std::function<void(Group&)>& work) {
  std::vector<std::string> all(static_cast<std::size_t>(ranks));
  ThreadRanks threads(ranks);
  on_threads(threads, [&](Devices& devices) {
    std::string& mine = all[std::size_t(devices.rank())];
    try {
      work(devices.group());
    } catch (const SaidElsewhere& e) {
      mine = fmt::format("told {}", int(e.code()));
    } catch (const Error& e) {
      mine = fmt::format("{}: {}", int(e.code()), e.what());
    }
  });
  return all;
}

TEST(Together, TheLowestRanksErrorIsThrownOnAllAndSaidByRankZero) {
  using All = std::vector<std::string>;
  const auto failing = [](std::vector<int> bad) {
    return thrown_on(4, [bad](Group& group) {
      together(&group, [&] {
        const int rank = group.place().rank;
        if (std::find(bad.begin(), bad.end(), rank) != bad.end())
          fail(ExitCode::data, "file of rank {} is missing\nlook there", rank);
      });
    });
  };
  EXPECT_EQ(failing({}), (All{"", "", "", ""}));
  EXPECT_EQ(failing({0, 2}), (All{"3: file of rank 0 is missing\nlook there", "told 3", "told 3", "told 3"}));
  EXPECT_EQ(failing({2, 3}), (All{"3: rank 2 of 4 (thread): file of rank 2 is missing\nlook there", "told 3",
                                  "told 3", "told 3"}));
}

TEST(Together, OutOfMemoryIsAnErrorOfResources) {
  const auto all = thrown_on(2, [](Group& group) {
    together(&group, [&] {
      if (group.place().rank == 1) throw std::bad_alloc();
    });
  });
  EXPECT_EQ(all.front(), "6: rank 1 of 2 (thread): out of memory");
}

TEST(Together, WhatIsNotTheSameEverywhereIsNamedWithBothValues) {
  const auto all = thrown_on(3, [](Group& group) {
    const std::string text =
        group.place().rank == 2 ? "[train]\nseed = 2\nsteps = 3" : "[train]\nseed = 1\nsteps = 3";
    require_same(group, ExitCode::usage, "recipe", text, "start all alike");
  });
  EXPECT_EQ(all.front(),
            "2: the processes of the run differ in recipe: rank 0 of 3 (thread) has 'seed = 1', rank 2 of 3 "
            "(thread) has 'seed = 2'; start all alike");
  EXPECT_EQ(all[1], "told 2");
  EXPECT_EQ(thrown_on(3, [](Group& group) { require_same(group, ExitCode::usage, "recipe", "same", ""); }),
            std::vector<std::string>(3));
}

TEST(Together, TextsOfDifferentLengthDiffer) {
  const auto all = thrown_on(2, [](Group& group) {
    require_same(group, ExitCode::usage, "x", group.place().rank ? "one\ntwo" : "one", "");
  });
  EXPECT_NE(all.front().find("has '', rank 1"), std::string::npos) << all.front();
}

}  // namespace
}  // namespace mxtape::test
