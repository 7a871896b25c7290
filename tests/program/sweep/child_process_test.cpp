#include "program/sweep/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

// wait4() says at least what this process had when it was forked.
TEST(ChildProcess, ItsMemoryIsItsOwnAndNotThatOfWhatStartedIt) {
  constexpr double mib = 600;
  const std::vector<char> much(std::size_t(mib) << 20, 'x');
  const TemporaryFolder folder;
  ChildProcess child({"--gtest_list_tests"}, folder / "log.txt");  // this program once more
  std::optional<ChildProcess::End> end;
  while (!(end = child.poll())) ::usleep(100);
  EXPECT_EQ(end->code, 0);
  EXPECT_GT(end->peak_mib, 1);
  EXPECT_LT(end->peak_mib, mib);
  EXPECT_EQ(much.back(), 'x');
}

}  // namespace
}  // namespace mxtape
