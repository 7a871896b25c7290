#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/files/atomic_file.h"
#include "program/records/run_folder.h"
#include "program/run/stop_signals.h"
#include "tests/program/program.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

/// A folder in which `mxtape train tiny.toml` has more steps than a test waits for, each of half a second or
/// so: the first is not over when the second signal comes.
struct LongRun {
  const TemporaryFolder folder;
  std::vector<std::string> command{"train", "tiny.toml", "--train.steps=1000000", "--train.batch_size=256",
                                   "--train.accumulation=8"};

  LongRun() {
    tiny_data().write(folder / "data.h5");
    Recipe recipe = tiny_recipe(10);
    recipe.data.file = "data.h5";
    recipe.schedule.kind = ScheduleKind::constant;
    write_atomically(folder / "tiny.toml", to_toml(recipe));
  }
  bool has_begun() const {
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(folder / "runs/tiny/metrics.jsonl", missing);
    return !missing && bytes > 0;
  }
  /// Turns a child process into the program.
  [[noreturn]] void become() const {
    set_signals();
    std::vector<char*> argv{const_cast<char*>(MXTAPE_PROGRAM)};
    for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(folder.path().c_str()) == 0) ::execv(MXTAPE_PROGRAM, argv.data());
    ::_exit(127);
  }
  std::size_t checkpoints() const { return list_checkpoints(folder / "runs/tiny").size(); }
};

TEST(StopSignals, RequestsBeforeTheFirstStepAreKept) {
  set_signals();  // as a program begins with
  keep_early_requests();
  std::raise(SIGUSR1), std::raise(SIGUSR2);
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), SIGUSR1);
    EXPECT_TRUE(StopSignals::take_save_request());
  }
  const StopSignals later;
  EXPECT_EQ(StopSignals::received(), 0);
  EXPECT_FALSE(StopSignals::take_save_request());
}

TEST(StopSignals, ALostConnectionSavesHoweverOftenItIsSignalled) {
  const LongRun run;
  Program program(run.folder.path(), run.command);
  while (program.running() && !run.has_begun()) ::usleep(1000);
  program.send(SIGHUP);
  EXPECT_TRUE(program.printed("finishing the step")) << program.output();
  for (; program.running(); ::usleep(200)) program.send(SIGHUP);
  EXPECT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
  EXPECT_NE(program.output().find("stopped by SIGHUP after step "), std::string::npos) << program.output();
  EXPECT_EQ(run.checkpoints(), 1u);
}

// A hang-up under nohup, Ctrl-C for a background job of a script.
TEST(StopSignals, ASignalThatIsIgnoredFromTheStartStopsNothing) {
  for (const int ignored : {SIGHUP, SIGINT}) {
    const LongRun run;
    Program program(run.folder.path(), run.command, {ignored});
    while (program.running() && !run.has_begun()) ::usleep(1000);
    program.send(ignored);
    program.send(ignored);
    program.send(SIGTERM);
    EXPECT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
    EXPECT_NE(program.output().find("stopped by SIGTERM after step "), std::string::npos) << program.output();
  }
}

// What Slurm's --signal=USR1@60 does: a warning, and SIGTERM later.
TEST(StopSignals, AWarningSavesAndEndsAndTheSigtermThatFollowsIsNoImpatience) {
  const LongRun run;
  Program program(run.folder.path(), run.command);
  while (program.running() && !run.has_begun()) ::usleep(1000);
  program.send(SIGUSR1);
  EXPECT_TRUE(program.printed("finishing the step")) << program.output();
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
  EXPECT_NE(program.output().find("stopped by SIGUSR1 after step "), std::string::npos) << program.output();
  EXPECT_EQ(run.checkpoints(), 1u);
}

TEST(StopSignals, Sigusr2SavesAndTheRunGoesOn) {
  const LongRun run;
  Program program(run.folder.path(), run.command);
  while (program.running() && !run.has_begun()) ::usleep(1000);
  program.send(SIGUSR2);
  ASSERT_TRUE(program.printed("SIGUSR2: ")) << program.output();
  const auto files = list_checkpoints(run.folder / "runs/tiny");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_NO_THROW(CheckpointFile{files[0]});
  EXPECT_NE(program.output().find(files[0].filename().string() + " is written"), std::string::npos);
  EXPECT_TRUE(program.running());
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
  EXPECT_EQ(run.checkpoints(), 2u) << "the one that was asked for and the one of the end";
}

TEST(StopSignals, ARunThatIsSavedEndsAtOnce) {
  const LongRun run;
  Program program(run.folder.path(), {"train", "tiny.toml", "--train.sample_tokens=1048576"});
  EXPECT_TRUE(program.printed("step 10/10 | validation")) << program.output();
  while (program.running() && run.checkpoints() == 0) ::usleep(1000);
  ::usleep(100'000);  // well into the sample
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 128 + SIGINT) << program.output();
  EXPECT_EQ(run.checkpoints(), 1u);
}

// As Ctrl-C does to `mxtape train ... 2>&1 | tee log`: tee ends at once, and who writes to it gets SIGPIPE.
TEST(StopSignals, AReaderThatTheSameSignalEndsDoesNotEndTheRun) {
  const LongRun run;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(ends[1], standard);
    for (const int end : ends) ::close(end);
    run.become();
  }
  ::close(ends[1]);
  while (!run.has_begun()) ::usleep(1000);
  ::kill(child, SIGINT);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), int(ExitCode::interrupted));
  EXPECT_EQ(run.checkpoints(), 1u);
}

// `mxtape train ... | head`: nobody asked the run to stop.
TEST(StopSignals, AReaderThatGoesAwayCostsTheRunNothing) {
  for (const bool at_once : {true, false}) {
    LongRun run;
    run.command = {"train", "tiny.toml", "--train.steps=300", "--train.sample_tokens=20"};
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    if (at_once) ::close(ends[0]);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      if (!at_once) ::close(ends[0]);
      ::close(ends[1]);
      run.become();
    }
    ::close(ends[1]);
    while (!at_once && !run.has_begun()) ::usleep(1000);
    if (!at_once) ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    ASSERT_EQ(run.checkpoints(), 1u);
    EXPECT_EQ(list_checkpoints(run.folder / "runs/tiny")[0].filename(), "step_00000300.h5");
  }
}

// As a full disk under redirected output: the model is saved, and then the failure is said.
TEST(StopSignals, OutputThatCannotBeWrittenIsAnErrorAfterTheModelIsSaved) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  LongRun run;
  run.command = {"train", "tiny.toml", "--train.steps=300"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
    run.become();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), int(ExitCode::resource));
  EXPECT_EQ(run.checkpoints(), 1u);
}

TEST(StopSignals, ATerminalThatIsGoneCostsNoCheckpoint) {
  const LongRun run;
  PseudoTerminal terminal;
  if (!terminal) GTEST_SKIP() << "this system gives no pseudo-terminal";
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const int file =
        ::open(terminal.name().c_str(), O_RDWR);  // the first one that a session opens controls it
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(file, standard);
    ::close(terminal.master());
    ::setenv("TERM", "xterm", 1);
    run.become();
  }
  std::string shown;
  char piece[4096];
  while (shown.find("| loss ") == std::string::npos) {
    const auto count = ::read(terminal.master(), piece, sizeof piece);
    ASSERT_GT(count, 0) << shown;
    shown.append(piece, std::size_t(count));
  }
  terminal.hang_up();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), int(ExitCode::interrupted));
  EXPECT_EQ(run.checkpoints(), 1u);
}

}  // namespace
}  // namespace mxtape::test
