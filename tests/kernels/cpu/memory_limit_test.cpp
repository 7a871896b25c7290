#include "kernels/cpu/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

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
  const std::int64_t limited = memory_limit();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_LE(limited, free);
  EXPECT_LT(limited, std::int64_t{16} << 30);
}

}  // namespace
}  // namespace mxtape::cpu
