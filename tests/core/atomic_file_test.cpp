#include "core/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "core/error.h"
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

/// Runs `action` in a child whose files may not grow past `bytes`: its exit code is that of the Error, 0 for
/// none.
template <class Action>
int with_file_limit(rlim_t bytes, const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int code = 0;
    try {
      action();
    } catch (const Error& error) {
      const bool named = std::strstr(error.what(), "File too large; 100000 bytes are needed") != nullptr;
      code = named ? int(error.code()) : 99;
    }
    std::exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(AtomicFile, AFullDiskLeavesTheOldContentAndNoPartOfTheNew) {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "old");
  const std::string content(100'000, 'x');
  EXPECT_EQ(with_file_limit(40'000, [&] { write_atomically(folder / "a", content); }),
            int(ExitCode::resource));
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
  EXPECT_EQ(with_file_limit(100'000, [&] { write_atomically(folder / "a", content); }), 0);
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

}  // namespace
}  // namespace mxtape
