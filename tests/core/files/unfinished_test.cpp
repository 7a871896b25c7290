#include "core/files/unfinished.h"

#include <gtest/gtest.h>

#include <fstream>
#include <list>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/output_file.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

TEST(Unfinished, FilesAndFoldersGoWithAllThatIsInThem) {
  const TemporaryFolder folder;
  write_atomically(folder / "kept", std::string_view("kept"));
  write_atomically(folder / "file", std::string_view("part"));
  write_atomically(folder / "run/checkpoints/step", std::string_view("part"));
  for (int i = 0; i < 100; ++i)  // names for several reads of the folder
    std::ofstream(folder / fmt::format("run/a name that is long enough to fill a page sooner {}", i))
        << "part";
  fs::create_symlink(folder / "kept", folder / "run/link");
  fs::create_directory(folder / "other");
  write_atomically(folder / "other/kept", std::string_view("kept"));
  fs::create_directory_symlink(folder / "other", folder / "run/folder link");
  {
    const Unfinished file(folder / "file"), run(folder / "run"), absent(folder / "absent");
    remove_unfinished();
  }
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"kept", "other"}));
  EXPECT_TRUE(fs::exists(folder / "other/kept")) << "what a link leads to is not taken away";
}

TEST(Unfinished, WhatIsFinishedStaysAndEntriesServeAgain) {
  const TemporaryFolder folder;
  write_atomically(folder / "a", std::string_view("whole"));
  for (int i = 0; i < 100; ++i) const Unfinished finished(folder / "a");
  remove_unfinished();
  EXPECT_TRUE(fs::exists(folder / "a"));
  std::list<Unfinished> many;
  for (int i = 0; i < 40; ++i) many.emplace_back(folder / "nothing");  // more than can be noted
  many.clear();
  const Unfinished last(folder / "a");
  remove_unfinished();
  EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST(Unfinished, FoldersAndFilesThatAppearWholeAreNoted) {
  const TemporaryFolder folder;
  UnfinishedFolder run(folder / "run");
  write_atomically(run.path() / "checkpoints/step", std::string_view("part"));
  UnfinishedFile file(folder / "file");
  OutputFile output(file.path());
  output.write("part");
  EXPECT_EQ(folder.names().size(), 2u);
  remove_unfinished();
  EXPECT_EQ(folder.names(), std::vector<std::string>{});
}

}  // namespace
}  // namespace mxtape
