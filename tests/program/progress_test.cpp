#include "program/run/run_progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "tests/support/pseudo_terminal.h"

namespace mxtape::test {
namespace {

/// What `report` leaves in a file: a log, not a screen.
template <class Report>
std::string logged(std::int64_t steps, const Report& report) {
  std::FILE* out = std::tmpfile();
  Progress progress(out, steps, 0);
  report(progress);
  std::string text(std::size_t(std::ftell(out)), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  return text;
}

/// A terminal's stream, with a TERM that can move its cursor. TERM is as it was once it goes.
class Screen {
 public:
  Screen() : before_(std::getenv("TERM") ? std::getenv("TERM") : ""), had_one_(std::getenv("TERM")) {
    if (pseudo_) stream_ = ::fdopen(::open(pseudo_.name().c_str(), O_WRONLY | O_NOCTTY), "w");
    ::setenv("TERM", "xterm", 1);
  }
  ~Screen() {
    had_one_ ? ::setenv("TERM", before_.c_str(), 1) : ::unsetenv("TERM");
    if (stream_) std::fclose(stream_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::FILE* stream() const { return stream_; }  // null where the system gives none
  /// What was written to it.
  std::string text() const {
    std::fflush(stream_);
    ::fcntl(pseudo_.master(), F_SETFL, O_NONBLOCK);
    std::string text;
    char piece[4096];
    for (ssize_t n = 0; (n = ::read(pseudo_.master(), piece, sizeof piece)) > 0;)
      text.append(piece, std::size_t(n));
    return text;
  }

 private:
  PseudoTerminal pseudo_;
  std::FILE* stream_ = nullptr;
  std::string before_;
  bool had_one_;
};

StepRecord step_of(std::int64_t step, double milliseconds) {
  return {.step = step, .milliseconds = milliseconds, .tokens_per_second = 1000 / milliseconds};
}

TEST(Progress, TheFirstStepIsNotPartOfTheMeanTime) {
  const std::string log = logged(12, [](Progress& progress) {
    progress.step(step_of(1, 500));
    for (std::int64_t step = 2; step <= 12; ++step) progress.step(step_of(step, 2));
  });
  EXPECT_NE(log.find("500.0 ms | 2 tok/s"), std::string::npos) << "as long as there is no other\n" << log;
  EXPECT_NE(log.find("2.0 ms | 500 tok/s"), std::string::npos) << log;
}

TEST(Progress, TheMeanTimeFollowsTheLastTenStepsOrSo) {
  const std::string log = logged(60, [](Progress& progress) {
    for (std::int64_t step = 1; step <= 3; ++step) progress.step(step_of(step, double(step)));
    for (std::int64_t step = 4; step <= 60; ++step) progress.step(step_of(step, 8));
  });
  EXPECT_NE(log.find("step  2/60 | loss 0.0000 | norm 0.000 | lr 0.00e+00 | 2.0 ms"), std::string::npos)
      << log;
  EXPECT_NE(log.find("step 60/60 | loss 0.0000 | norm 0.000 | lr 0.00e+00 | 8.0 ms"), std::string::npos)
      << log;
}

TEST(Progress, ATerminalIsAScreenUnlessItIsDumb) {
  const Screen screen;
  std::FILE* const terminal = screen.stream();
  if (!terminal) GTEST_SKIP() << "this system gives no pseudo-terminal";
  EXPECT_TRUE(is_screen(terminal));
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_FALSE(is_screen(terminal)) << "of a rank, which mpirun reads";
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(is_screen(file));
  std::fclose(file);
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_screen(terminal));
  ::unsetenv("TERM");
  EXPECT_FALSE(is_screen(terminal));
}

TEST(PassProgress, IsALineWithAllPassesAndTheTimeLeftAtMostTenTimesASecond) {
  const Screen screen;
  if (!screen.stream()) GTEST_SKIP() << "this system gives no pseudo-terminal";
  PassProgress progress(screen.stream(), 4, true), hidden(screen.stream(), 4, false);
  const auto begin = std::chrono::steady_clock::now();
  for (const char* name : {"f32", "mxfp4"}) {
    progress.begin(name);
    for (int done = 1; done <= 300; ++done) progress.look(done, 300), hidden.look(done, 300), ::usleep(1000);
  }
  progress.end();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string text = screen.text();
  std::size_t lines = 0;
  for (auto at = text.find("eta "); at != std::string::npos; at = text.find("eta ", at + 1)) ++lines;
  EXPECT_GE(lines, 4u);
  EXPECT_LE(double(lines), 10 * seconds + 1) << text;
  EXPECT_NE(text.find("/300 | 2 of 4 | "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\033[K")) << "nothing stays";
}

}  // namespace
}  // namespace mxtape::test
