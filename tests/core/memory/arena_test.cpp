#include "core/memory/arena.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "core/error.h"

namespace mxtape {
namespace {

std::shared_ptr<Pool> host_pool() {
  return Pool::create([](std::int64_t bytes) { return std::malloc(std::size_t(bytes)); }, std::free);
}

/// A few requests with lives that overlap; returns their addresses.
std::vector<void*> some_work(Arena& arena) {
  const auto a = arena.take(1000);
  auto b = arena.take(5000);
  const auto c = arena.take(300);
  std::vector<void*> addresses{a.get(), b.get(), c.get()};
  b.reset();
  addresses.push_back(arena.take(4000).get());
  return addresses;
}

TEST(Arena, FromTheSecondRunOnEveryRequestHasItsAddressInOneBlock) {
  const auto pool = host_pool();
  Arena arena(pool);
  std::vector<std::vector<void*>> addresses;
  std::vector<bool> followed;
  for (int run = 0; run < 5; ++run)
    followed.push_back(arena.run("step", [&] { addresses.push_back(some_work(arena)); }));
  EXPECT_EQ(followed, (std::vector{false, true, true, true, true}));
  for (int run = 2; run < 5; ++run) EXPECT_EQ(addresses[std::size_t(run)], addresses[1]);
  EXPECT_EQ(addresses[1][1], addresses[1][3]) << "the fourth takes the place that the second left";
  EXPECT_EQ(arena.report("step").requests, 4);
  EXPECT_EQ(arena.report("step").bytes, 1024 + 5120 + 512);
  EXPECT_EQ(arena.report("step").most_live, 1024 + 5120 + 512);
  EXPECT_EQ(arena.report("step").plans, 1);
  EXPECT_EQ(pool->used_bytes(), 1024 + 5120 + 512) << "the block alone";
}

/// Random work whose pieces are filled with a pattern of their own, which must still be there at their end.
void patterned_work(Arena& arena, unsigned seed) {
  std::mt19937 random(seed);
  struct Piece {
    std::shared_ptr<void> memory;
    std::size_t bytes;
    unsigned char pattern;
  };
  std::vector<Piece> living;
  const auto end = [&](std::size_t i) {
    const auto* bytes = static_cast<const unsigned char*>(living[i].memory.get());
    for (std::size_t j = 0; j < living[i].bytes; ++j) ASSERT_EQ(bytes[j], living[i].pattern);
    living.erase(living.begin() + std::ptrdiff_t(i));
  };
  for (int event = 0; event < 300; ++event) {
    if (living.empty() || random() % 100 < 55) {
      const std::size_t bytes = random() % 3000;
      living.push_back({arena.take(std::int64_t(bytes)), bytes, static_cast<unsigned char>(random())});
      std::memset(living.back().memory.get(), living.back().pattern, bytes);
    } else {
      end(random() % living.size());
    }
  }
  while (!living.empty()) end(living.size() - 1);
}

TEST(Arena, NobodyWritesIntoMemoryInUse) {
  Arena arena(host_pool());
  for (unsigned seed = 0; seed < 20; ++seed)
    for (int run = 0; run < 3; ++run) arena.run(std::to_string(seed), [&] { patterned_work(arena, seed); });
}

TEST(Arena, AnotherSizeAnotherOrderMoreAndFewerRequestsArePlannedAnew) {
  Arena arena(host_pool());
  std::int64_t plans = 0;
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {300, 700, 300}, {300, 701, 300}, {701, 300, 300}, {701, 300, 300, 300}, {701, 300}}) {
    const auto work = [&] {
      std::vector<std::shared_ptr<void>> pieces;
      for (const auto bytes : sizes) {
        pieces.push_back(arena.take(bytes));
        std::memset(pieces.back().get(), int(pieces.size()), std::size_t(bytes));
      }
      for (std::size_t i = 0; i < pieces.size(); ++i)
        EXPECT_EQ(*static_cast<char*>(pieces[i].get()), char(i + 1)) << "shared with a later piece";
    };
    EXPECT_FALSE(arena.run("step", work));
    EXPECT_EQ(arena.report("step").plans, ++plans);
    EXPECT_TRUE(arena.run("step", work));
    EXPECT_EQ(arena.report("step").plans, plans);
  }
}

TEST(Arena, APieceThatLivesLongerThanPlannedIsNotOverwritten) {
  Arena arena(host_pool());
  bool keep = false;
  const auto work = [&] {
    auto first = arena.take(512);
    std::memset(first.get(), 1, 512);
    if (!keep) first.reset();
    const auto second = arena.take(512);
    std::memset(second.get(), 2, 512);
    if (keep) {
      EXPECT_EQ(*static_cast<char*>(first.get()), 1);
    }
  };
  arena.run("step", work);
  EXPECT_TRUE(arena.run("step", work));
  keep = true;
  EXPECT_FALSE(arena.run("step", work));
  EXPECT_TRUE(arena.run("step", work)) << "planned anew";
}

TEST(Arena, ResultsStayValidWhileLaterRunsGoOn) {
  const auto pool = host_pool();
  std::vector<std::shared_ptr<void>> results;
  {
    Arena arena(pool);
    for (int run = 0; run < 4; ++run) {
      arena.run("step", [&] {
        const auto scratch = arena.take(4096);
        results.push_back(arena.take(64));
        std::memset(scratch.get(), 0xff, 4096);
        std::memset(results.back().get(), run, 64);
      });
    }
    EXPECT_EQ(arena.report("step").bytes, 4096) << "results are not in the block";
  }
  for (int run = 0; run < 4; ++run) EXPECT_EQ(*static_cast<char*>(results[std::size_t(run)].get()), run);
  results.clear();
  EXPECT_EQ(pool->used_bytes(), 0);
}

TEST(Arena, APieceOfTheBlockThatBecomesAResultIsKept) {
  Arena arena(host_pool());
  std::shared_ptr<void> kept;
  bool keep = false;
  const auto work = [&] {
    const auto piece = arena.take(64);
    std::memset(piece.get(), keep ? 7 : 8, 64);
    if (keep) kept = piece;
  };
  arena.run("step", work);
  arena.run("step", work);
  keep = true;
  EXPECT_FALSE(arena.run("step", work));
  keep = false;
  arena.run("step", work);
  EXPECT_EQ(*static_cast<char*>(kept.get()), 7);
}

TEST(Arena, AResultThatIsDroppedDuringARunIsADeparture) {
  Arena arena(host_pool());
  std::shared_ptr<void> result;
  bool keep = true;
  const auto work = [&] {
    result = arena.take(64);
    if (!keep) result = nullptr;  // the next request may get its memory
    arena.take(1000);
  };
  arena.run("step", work);
  EXPECT_TRUE(arena.run("step", work));
  keep = false;
  EXPECT_FALSE(arena.run("step", work));
  EXPECT_TRUE(arena.run("step", work)) << "planned anew as a piece of the block";
}

TEST(Arena, WhereDeparturesAreErrorsTheMessageNamesTheRequest) {
  Arena arena(host_pool());
  const auto work = [&](std::int64_t bytes) {
    return [&arena, bytes] { arena.take(256), arena.take(bytes); };
  };
  EXPECT_THROW(arena.run("step", work(512), Arena::Departure::error), Error) << "no plan";
  arena.run("step", work(512));
  EXPECT_TRUE(arena.run("step", work(512), Arena::Departure::error));
  try {
    arena.run("step", work(513), Arena::Departure::error);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "repeat: 'step': request 1 is for 513 bytes; the runs before had 512 there. Work that "
                 "repeats must make the same calls each time");
  }
  EXPECT_TRUE(arena.run("step", work(512), Arena::Departure::error)) << "the plan is still there";
}

TEST(Arena, WhereDeparturesAreErrorsThePoolIsNotAskedWhileTheWorkRuns) {
  int asked = 0;
  const auto pool = Pool::create(
      [&](std::int64_t bytes) {
        ++asked;
        return std::malloc(std::size_t(bytes));
      },
      std::free);
  Arena arena(pool);
  std::shared_ptr<void> result;
  const auto work = [&] {
    const int before = asked;
    arena.take(4096);
    result = arena.take(64);
    EXPECT_EQ(asked, before);
  };
  const auto first = [&] { arena.take(4096), result = arena.take(64); };
  arena.run("step", first);
  arena.trim();
  pool->trim();
  arena.run("step", work, Arena::Departure::error);
}

TEST(Arena, TrimTakesBlocksButNotThoseThatArePinned) {
  const auto pool = host_pool();
  Arena arena(pool);
  std::shared_ptr<void> result;
  const auto work = [&] {
    some_work(arena);
    result = arena.take(64);
  };
  for (int run = 0; run < 2; ++run) arena.run("step", work), arena.run("other", work);
  const void* const address = result.get();  // of "other"
  arena.pin("other");
  result.reset();
  arena.trim();
  EXPECT_EQ(pool->used_bytes(), arena.report("other").bytes + 256) << "its block and its result";
  EXPECT_TRUE(arena.run("step", work)) << "the plan outlives its block";
  EXPECT_NE(result.get(), address) << "pinned results are nobody else's";
  result.reset();
  arena.forget("step");
  arena.forget("other");
  EXPECT_EQ(pool->used_bytes(), 0);
}

TEST(Arena, WorkThatThrowsLeavesTheArenaUsable) {
  const auto pool = host_pool();
  Arena arena(pool);
  arena.run("step", [&] { some_work(arena); });
  EXPECT_THROW(arena.run("step",
                         [&] {
                           const auto piece = arena.take(1000);
                           fail(ExitCode::diverged, "on purpose");
                         }),
               Error);
  EXPECT_TRUE(arena.run("step", [&] { some_work(arena); }));
}

TEST(Arena, RunsDoNotNest) {
  Arena arena(host_pool());
  EXPECT_THROW(arena.run("outer", [&] { arena.run("inner", [] {}); }), Error);
  EXPECT_FALSE(arena.run("outer", [] {})) << "its first run that ended";
}

}  // namespace
}  // namespace mxtape
