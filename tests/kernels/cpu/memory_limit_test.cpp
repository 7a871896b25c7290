#include "kernels/cpu/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace mxtape::cpu {
namespace {

TEST(MemoryLimit, CountsWhatUlimitLeaves) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const std::int64_t free = memory_limit();
  struct rlimit low = before;
  low.rlim_cur = rlim_t{16} << 30;
  if (low.rlim_cur > before.rlim_max) GTEST_SKIP() << "a lower limit is set already";
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const std::int64_t limited = memory_limit(), shared = memory_limit(2);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_LE(limited, free);
  EXPECT_LT(limited, std::int64_t{16} << 30);
  // Processes share the machine's memory, and each has such a limit for itself.
  EXPECT_NEAR(double(shared), double(std::min(limited, free / 2)), 1 << 20);
}

}  // namespace
}  // namespace mxtape::cpu
