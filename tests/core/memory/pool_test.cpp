#include "core/memory/pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <set>

#include "core/error.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace mxtape {
namespace {

std::shared_ptr<Pool> watched_pool() {
  return Pool::create([](std::int64_t bytes) { return std::malloc(std::size_t(bytes)); }, std::free,
                      Pool::Memory::host);
}

TEST(Pool, TheSameRequestsGetTheSameAddressesInTheNextStep) {
  auto pool = watched_pool();
  auto step = [&] {
    auto a = pool->take(1000), b = pool->take(5000);
    auto c = pool->take(1000);
    return std::array{a.get(), b.get(), c.get()};
  };
  const auto first = step();
  const auto reserved = pool->reserved_bytes();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::set<void*>(first.begin(), first.end()).count(step()[1]), 1u);
  EXPECT_EQ(pool->reserved_bytes(), reserved) << "a repeated step asks the device for nothing";
  EXPECT_EQ(pool->used_bytes(), 0);
}

TEST(Pool, SaysHowMuchWasAskedForWhenThereIsNoMemory) {
  auto pool = Pool::create([](std::int64_t) -> void* { return nullptr; }, [](void*) {});
  try {
    pool->take(std::int64_t{3} << 20);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_NE(std::string(e.what()).find("3.0 MiB"), std::string::npos) << e.what();
  }
}

TEST(Pool, GivesIdleBlocksBackBeforeItSaysThatThereIsNoMemory) {
  std::int64_t free_bytes = 1 << 20;  // of a device that holds no more
  auto pool = Pool::create(
      [&](std::int64_t bytes) { return bytes <= free_bytes ? std::malloc(std::size_t(bytes)) : nullptr; },
      [&](void* block) {
        free_bytes = 1 << 20;
        std::free(block);
      });
  pool->take(700 << 10).reset();
  free_bytes -= 700 << 10;
  EXPECT_NE(pool->take(900 << 10), nullptr);
  EXPECT_EQ(pool->reserved_bytes(), 900 << 10);
}

TEST(Pool, BlocksOutliveThePoolsOwner) {
  auto pool = watched_pool();
  auto block = pool->take(64);
  pool.reset();
  *static_cast<int*>(block.get()) = 1;
}

#ifdef __SANITIZE_ADDRESS__
TEST(Pool, TheAddressSanitizerKnowsWhereBlocksEndAndWhichAreIdle) {
  auto pool = watched_pool();
  auto block = pool->take(100);
  auto* const bytes = static_cast<char*>(block.get());
  EXPECT_FALSE(__asan_address_is_poisoned(bytes + 99));
  EXPECT_TRUE(__asan_address_is_poisoned(bytes + 100)) << "though 256 bytes are there";
  block.reset();
  EXPECT_TRUE(__asan_address_is_poisoned(bytes)) << "kept by the pool, nobody's";
}
#endif

}  // namespace
}  // namespace mxtape
