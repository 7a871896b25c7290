#include "program/records/run_folder.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/hdf5/seal.h"
#include "tests/support/few_handles.h"
#include "tests/support/temporary_folder.h"

namespace {
int refusal = 0;  // of every lock, if it is not 0
}
extern "C" int flock(int file, int how) noexcept {  // instead of the C library's
  return refusal ? (errno = refusal, -1) : int(::syscall(SYS_flock, file, how));
}

namespace mxtape {
namespace {

/// Any bytes with a seal: what retention looks at.
void put_sealed(const std::filesystem::path& path) {
  std::vector<std::byte> bytes(100);
  const auto seal = make_seal(bytes);
  bytes.insert(bytes.end(), seal.begin(), seal.end());
  write_atomically(path, bytes);
}

TEST(RunFolder, ListsCheckpointsNewestFirstAndNothingElse) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "a run");
  for (std::int64_t step : {9, 123'456'789, 10, 99'999'999}) put_sealed(run.checkpoint(step));
  for (const char* other : {"step_00000011.h5.tmp.1", "step_00000012.h5.rejected", "step_.h5", "notes.h5"})
    write_atomically(run.path() / "checkpoints" / other, std::string_view("x"));
  const std::vector<std::filesystem::path> want{run.checkpoint(123'456'789), run.checkpoint(99'999'999),
                                                run.checkpoint(10), run.checkpoint(9)};
  EXPECT_EQ(run.checkpoints(), want);
}

TEST(RunFolder, ALockThatCannotBeHadIsNoOtherProcess) {
  const TemporaryFolder folder;
  write_atomically(folder.path() / ".lock", std::string_view());
  for (const int reason : {ENOLCK, EWOULDBLOCK}) try {
      refusal = reason;
      const FileLock quiet = quiet_folder(folder.path(), "wait");
      ADD_FAILURE();
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(text.find("another mxtape process") != std::string::npos, reason == EWOULDBLOCK) << text;
    }
  refusal = 0;
}

TEST(FileLock, IsAnothersOnlyIfTheSystemSaysSo) {
  const TemporaryFolder folder;
  const FileLock lock(folder / "lock");
  refusal = EWOULDBLOCK;
  EXPECT_FALSE(lock.take());
  for (const int reason : {ENOLCK, EBADF, EOPNOTSUPP}) try {
      refusal = reason;
      (void)lock.take();
      ADD_FAILURE() << std::strerror(reason);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resource);
      EXPECT_EQ(e.what(),
                fmt::format("{}: cannot be locked: {}; want a folder on a file system that has locks",
                            (folder / "lock").string(), std::strerror(reason)));
    }
  refusal = 0;
  EXPECT_TRUE(lock.take());
}

TEST(RunFolder, CheckpointsThatCannotBeListedAreNotNone) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  put_sealed(run.checkpoint(7));
  try {
    const test::FewHandles none(0);
    (void)run.checkpoints();
    FAIL() << "the run would begin again at step 0";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_NE(std::string(e.what()).find("the checkpoints cannot be listed"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run.checkpoints().size(), 1u);
  EXPECT_TRUE(list_checkpoints(folder.path() / "no run").empty()) << "where nothing is, nothing can be";
}

// archive() was killed: before the checkpoints had gone, or between them and its last rename.
TEST(RunFolder, AnArchiveThatWasBegunIsUndoneOrFinished) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run", moving = path / "before.moving";
  {
    const RunFolder run(path);
    put_sealed(run.checkpoint(3));
    write_atomically(moving / "metrics.jsonl", std::string_view("x"));
  }
  {
    const RunFolder run(path);
    EXPECT_TRUE(std::filesystem::exists(run.metrics()));
    EXPECT_EQ(run.checkpoints().size(), 1u);
    EXPECT_FALSE(std::filesystem::exists(moving));
    write_atomically(moving / "metrics.jsonl", std::string_view("x"));
    std::filesystem::rename(path / "checkpoints", moving / "checkpoints");
  }
  const RunFolder run(path);
  EXPECT_TRUE(run.checkpoints().empty());
  EXPECT_EQ(list_checkpoints(path / "before-1").size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(path / "before-1/metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(moving));
}

TEST(RunFolder, RetentionKeepsTheNewestAndAsManyAsAskedFor) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  for (std::int64_t step = 1; step <= 5; ++step) put_sealed(run.checkpoint(step));
  run.retain(9);
  EXPECT_EQ(run.checkpoints().size(), 5u);
  run.retain(2);
  EXPECT_EQ(run.checkpoints(), (std::vector{run.checkpoint(5), run.checkpoint(4)}));
  run.retain(1);
  EXPECT_EQ(run.checkpoints(), std::vector{run.checkpoint(5)});
}

TEST(RunFolder, RetentionDeletesNothingWhenTheNewestDoesNotVerify) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  put_sealed(run.checkpoint(1));
  write_atomically(run.checkpoint(2), std::string_view("longer than a seal, but without one at its end"));
  EXPECT_THROW(run.retain(1), Error);
  EXPECT_EQ(run.checkpoints().size(), 2u);
}

TEST(RunFolder, ASecondRunInTheSameFolderIsRefused) {
  const TemporaryFolder folder;
  const RunFolder first(folder.path() / "run");
  try {
    const RunFolder second(folder.path() / "run");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_NE(std::string(e.what()).find("another mxtape process"), std::string::npos) << e.what();
  }
}

TEST(RunFolder, ClearsWhatACrashedRunLeftUnderTemporaryNames) {
  const TemporaryFolder folder;
  { const RunFolder run(folder.path()); }
  const auto orphan = folder.path() / "checkpoints" / "step_00000003.h5.tmp.4242";
  write_atomically(orphan, std::string_view("half a checkpoint"));
  const RunFolder run(folder.path());
  EXPECT_FALSE(std::filesystem::exists(orphan));
}

TEST(RunFolder, WithoutRoomForACheckpointIsAnErrorBeforeTheRun) {
  const TemporaryFolder folder;
  RunFolder run(folder / "run");
  run.reserve(4096);
  EXPECT_EQ(std::filesystem::file_size(folder / "run/reserved"), 4096u);
  try {
    run.reserve(std::numeric_limits<std::int64_t>::max());
    FAIL() << "no disk holds 8 EiB";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run/reserved"));
}

TEST(RunFolder, IsFoundAgainWhereItWasMovedAndMadeAgainWhereItWasDeleted) {
  const TemporaryFolder folder;
  RunFolder run(folder / "run");
  std::filesystem::rename(folder / "run", folder / "elsewhere");
  run.follow();
  EXPECT_EQ(run.path(), folder / "elsewhere");
  std::filesystem::remove_all(folder / "elsewhere");
  run.follow();
  EXPECT_TRUE(std::filesystem::is_directory(run.path() / "checkpoints"));
}

TEST(RunFolder, RetentionLeavesWhatIsToStay) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  for (const std::int64_t step : {1, 2, 3, 4, 5}) put_sealed(run.checkpoint(step));
  run.retain(1, [](std::int64_t step) { return step == 2; });
  EXPECT_EQ(run.checkpoints(), (std::vector{run.checkpoint(5), run.checkpoint(2)}));
}

TEST(RunFolder, ThatCannotBeMadeIsAnErrorOfResources) {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "file", std::string_view("not a folder"));
  try {
    const RunFolder run(folder.path() / "file" / "run");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
  }
}

}  // namespace
}  // namespace mxtape
