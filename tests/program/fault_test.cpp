// Every call that changes a file fails once, or is the process's last. Source of the method: SQLite's I/O
// error and crash tests, https://www.sqlite.org/testing.html, sections 3.2 and 3.3.
#include "tests/program/fault_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

class Faults : public FaultTest {
 protected:
  /// Fails each call of a run in turn, and returns how many there were.
  void expect_one_message_with_exit_6(const char* how) {
    const auto calls = calls_of_a_whole_run();
    int failures = 0;
    for (std::size_t n = 1; n <= calls.size(); ++n) {
      const std::string what = fmt::format("call {} of {}, {}", n, calls.size(), calls[n - 1]);
      const int code = train({.at = std::to_string(n), .how = how});
      // Room that cannot be given back or taken again is no reason to end a run, nor is the end of a file
      // that has been synced: a log, the lock.
      const bool harmless =
          code == 0 &&
          (calls[n - 1].ends_with("/reserved") ||
           (calls[n - 1].starts_with("close ") && calls[n - 1].find(".tmp.") == std::string::npos));
      EXPECT_TRUE(harmless || code == int(ExitCode::resource)) << code << ", " << what << "\n" << output_;
      EXPECT_EQ(messages(), harmless ? 0 : 1) << what << "\n" << output_;
      const auto message = output_.substr(std::min(output_.find("\nmxtape: "), output_.size()));
      if (contains(message, "Input/output error")) {
        EXPECT_FALSE(contains(message, " are free")) << "which is not what is missing: " << output_;
      }
      expect_whole_and_resumable(what);
      fs::remove_all(folder_ / "runs");
      failures += code != 0;
    }
    fmt::print("{} calls failed once each, {} of them ended the run\n", calls.size(), failures);
  }
};

TEST_F(Faults, AtAnyCallAFullDiskIsOneMessageWithExit6AndTheRunGoesOnToTheSameBits) {
  expect_one_message_with_exit_6("error");
}

TEST_F(Faults, AtAnyCallAnotherErrorIsOneMessageWithExit6AndTheRunGoesOnToTheSameBits) {
  expect_one_message_with_exit_6("other");
}

TEST_F(Faults, CallsThatDoHalfOfTheirWorkOrAreInterruptedChangeNothing) {
  calls_of_a_whole_run();
  for (const char* how : {"short", "interrupted"})
    for (const char* calls : {"changes", "reads"}) {
      const auto log = folder_ / "calls.txt";
      fs::remove(log);
      const std::string what = fmt::format("{} {}", how, calls);
      EXPECT_EQ(train({.at = "all", .how = how, .calls = calls, .log = log.string()}), 0) << what << "\n"
                                                                                          << output_;
      expect_finished(what);
      const auto bytes = fs::file_size(log);
      EXPECT_GT(bytes, 1000u) << what;
      fs::remove_all(folder_ / "runs");
    }
}

TEST_F(Faults, KilledInAnyCallTheRunGoesOnToTheSameBits) {
  const auto calls = calls_of_a_whole_run();
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    const std::string what = fmt::format("call {} of {}, {}", n, calls.size(), calls[n - 1]);
    EXPECT_EQ(train({.at = std::to_string(n), .how = "kill"}), 128 + SIGKILL) << what << "\n" << output_;
    expect_whole_and_resumable(what);
    fs::remove_all(folder_ / "runs");
  }
  fmt::print("killed in each of {} calls\n", calls.size());
}

TEST_F(Faults, KilledWhileAnEarlierRunIsMovedItsRecordsStayWithItsCheckpoints) {
  ASSERT_EQ(train(), 0) << output_;
  fs::rename(folder_ / "runs", folder_ / "first");
  const auto prepare = [&] {
    fs::remove_all(folder_ / "runs");
    fs::copy(folder_ / "first", folder_ / "runs", fs::copy_options::recursive);
  };
  prepare();
  const auto calls = calls_of({"train", "tiny.toml", "--resume=no"});
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    const std::string what = fmt::format("call {} of {}, {}", n, calls.size(), calls[n - 1]);
    prepare();
    ASSERT_EQ(train({.at = std::to_string(n), .how = "kill"}, "no"), 128 + SIGKILL) << what;
    { const RunFolder next(run_); }  // what the next start sees
    const fs::path moved = run_ / "before-1", there = fs::exists(moved) ? moved : run_;
    for (const char* file : {"checkpoints/step_00000002.h5", "metrics.jsonl", "recipe.toml", "device.txt"})
      EXPECT_TRUE(fs::exists(there / file)) << what << ": " << there / file;
    if (moved != there) continue;
    EXPECT_EQ(fs::file_size(moved / "metrics.jsonl"), fs::file_size(folder_ / "first/tiny/metrics.jsonl"))
        << what;
  }
}

}  // namespace
}  // namespace mxtape::test
