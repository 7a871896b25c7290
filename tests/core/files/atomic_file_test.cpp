#include "core/files/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "tests/support/file_limit.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

std::string text_of(const std::filesystem::path& path) {
  const auto bytes = read_whole(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(AtomicFile, ReplacesTheOldContentAndLeavesNothingElse) {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "old content, longer");
  write_atomically(folder / "a", "new");
  EXPECT_EQ(text_of(folder / "a"), "new");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFullDiskLeavesTheOldContentAndNoPartOfTheNew) {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "old");
  const std::string content(100'000, 'x');
  const char* const said = "File too large; 100000 bytes are needed";
  EXPECT_EQ(test::with_file_limit(40'000, said, [&] { write_atomically(folder / "a", content); }),
            int(ExitCode::resource));
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
  EXPECT_EQ(test::with_file_limit(100'000, said, [&] { write_atomically(folder / "a", content); }), 0);
  EXPECT_EQ(text_of(folder / "a"), content);
}

TEST(AtomicFile, FoldersOnTheWayAreMade) {
  const TemporaryFolder folder;
  write_atomically(folder / "new/newer/a", "x");
  EXPECT_EQ(text_of(folder / "new/newer/a"), "x");
}

TEST(AtomicFile, MissingFilesAndWrongKindsAreNamed) {
  const TemporaryFolder folder;
  const auto code_of = [](const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return std::pair(error.code(), std::string(error.what()));
    }
    return std::pair(ExitCode::ok, std::string());
  };
  EXPECT_EQ(code_of([&] { write_atomically("/proc/no/a", "x"); }),
            std::pair(ExitCode::resource,
                      std::string("/proc/no/a: cannot make folder /proc/no: No such file or directory")));
  EXPECT_EQ(code_of([&] { read_whole(folder / "b"); }),
            std::pair(ExitCode::data, (folder / "b").string() + ": cannot open: No such file or directory"));
  EXPECT_EQ(code_of([&] { read_whole(folder.path()); }),
            std::pair(ExitCode::data, folder.path().string() + ": is a folder, want a file"));
  std::filesystem::create_directory(folder / "taken");
  EXPECT_EQ(code_of([&] { write_atomically(folder / "taken", "x"); }).first, ExitCode::resource);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"taken"});
}

TEST(AtomicFile, AFileWithoutASizeIsReadToItsEndAndAReadErrorIsNoEnd) {
  EXPECT_NE(read_whole_text("/proc/self/status").find("\nPid:"), std::string::npos);
  try {
    read_whole("/proc/self/mem");  // nothing is mapped at 0
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::resource);
  }
}

TEST(AtomicFile, ALinkStaysALinkAndWhatItLeadsToIsReplaced) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "disk");
  write_atomically(folder / "disk/real", "old");
  std::filesystem::create_symlink("disk/real", folder / "link");
  std::filesystem::create_symlink("link", folder / "second");
  std::filesystem::create_symlink("disk/new", folder / "dangling");
  write_atomically(folder / "second", "new");
  write_atomically(folder / "dangling", "made");
  EXPECT_EQ(text_of(folder / "disk/real"), "new");
  EXPECT_EQ(text_of(folder / "disk/new"), "made");
  for (const char* link : {"link", "second", "dangling"})
    EXPECT_TRUE(std::filesystem::is_symlink(folder / link)) << link;
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_THROW(write_atomically(folder / "circle", "x"), Error);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"circle", "dangling", "disk", "link", "second"}));
}

TEST(AtomicFile, APipeIsRefusedAndStaysAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0666), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    try {
      write_atomically(folder / name, "x");
      ADD_FAILURE() << name << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::resource);
      EXPECT_EQ(error.what(), (folder / name).string() + ": is a device or pipe, want a file");
    }
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"link", "pipe"}));
}

}  // namespace
}  // namespace mxtape
