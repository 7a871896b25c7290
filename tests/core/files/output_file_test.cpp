#include "core/files/output_file.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/file_limit.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

TEST(OutputFile, AFileThatMayNotGrowIsAnErrorOfTheDiskAndNothingIsLeft) {
  const TemporaryFolder folder;
  const std::string content(100'000, 'x');
  const auto write = [&] {
    UnfinishedFolder out(folder / "out");
    OutputFile file(out.path() / "a");
    file.write(content);
    file.finish();
    out.finish();
  };
  EXPECT_EQ(test::with_file_limit(40'000, "cannot be written after byte 40000: File too large", write),
            int(ExitCode::resource));
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(test::with_file_limit(100'000, "", write), 0);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"out"});
}

}  // namespace
}  // namespace mxtape
