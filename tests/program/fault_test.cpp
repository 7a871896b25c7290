// Every call that changes a file fails once, or is the process's last. Source of the method: SQLite's I/O
// error and crash tests, https://www.sqlite.org/testing.html, sections 3.2 and 3.3.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/files/atomic_file.h"
#include "program/run_folder.h"
#include "tests/program/program.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// A run of three steps that saves after each one and keeps one checkpoint, under the shim of
/// tests/support/faults/shim.cpp.
class Faults : public testing::Test {
 protected:
  Faults() {
    test::tiny_data().write(folder_ / "data.h5");
    Recipe recipe = test::tiny_mxfp4_recipe(3);
    recipe.data.file = "data.h5";
    recipe.train.save_every = 1;
    recipe.train.keep = 1;
    recipe.compute.threads = 1;
    write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  }

  /// Trains in runs/; the call with number `fault` is the one that fails, none if that is 0.
  int train(int fault, const char* how, const std::string& log = {}, const char* resume = "auto") {
    // The sanitizers' runtime wants to be loaded before any other library; it works after this one too.
    const char* asan = std::getenv("ASAN_OPTIONS");
    const std::string options = std::string(asan ? asan : "") + ":verify_asan_link_order=0";
    const Environment environment{{"LD_PRELOAD", MXTAPE_FAULT_SHIM},
                                  {"ASAN_OPTIONS", options},
                                  {"MXT_FAULT_HOW", how},
                                  {fault ? "MXT_FAULT_AT" : "MXT_FAULT_NONE", std::to_string(fault)},
                                  {log.empty() ? "MXT_FAULT_NO_LOG" : "MXT_FAULT_LOG", log}};
    return program({"train", "tiny.toml", std::string("--resume=") + resume});
  }
  int resume() { return program({"train", "tiny.toml", "--resume=auto"}); }

  /// The calls of an undisturbed run, which then is gone but for its last checkpoint, the reference.
  std::vector<std::string> calls_of_a_whole_run() {
    const auto log = (folder_ / "calls.txt").string();
    EXPECT_EQ(train(0, "error", log), 0) << output_;
    whole_ = read_whole(run_ / "checkpoints/step_00000003.h5");
    fs::remove_all(folder_ / "runs");
    return lines_of(log);
  }
  static std::vector<std::string> lines_of(const std::string& file) {
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  /// What must hold whatever happened: nothing under a final name is damaged, and the run goes on to its
  /// bits.
  void expect_whole_and_resumable(const std::string& what) {
    for (const auto& file : list_checkpoints(run_)) EXPECT_NO_THROW(CheckpointFile{file}) << what;
    if (fs::exists(run_ / "recipe.toml")) {
      const auto text = read_whole(run_ / "recipe.toml");
      EXPECT_NO_THROW(recipe_from_toml({reinterpret_cast<const char*>(text.data()), text.size()}, "saved"))
          << what;
    }
    ASSERT_EQ(resume(), 0) << what << "\n" << output_;
    EXPECT_TRUE(read_whole(run_ / "checkpoints/step_00000003.h5") == whole_) << what << ": other bits";
    EXPECT_EQ(steps_in_metrics(), (std::vector<std::int64_t>{1, 2, 3})) << what;
    for (const auto& entry : fs::recursive_directory_iterator(run_))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << what << ": " << entry.path();
  }

  /// Lines of the last program's output that are errors.
  int messages() const {
    std::istringstream lines(output_);
    int count = 0;
    for (std::string line; std::getline(lines, line);) count += line.starts_with("mxtape: ");
    return count;
  }

  const TemporaryFolder folder_;
  const fs::path run_ = folder_ / "runs/tiny";
  std::string output_;
  std::vector<std::byte> whole_;

 private:
  /// Sets variables for the programs that are started while it lives.
  class Environment {
   public:
    Environment(std::initializer_list<std::pair<std::string, std::string>> variables)
        : variables_(variables) {
      for (auto& [name, value] : variables_) {
        const char* before = std::getenv(name.c_str());
        ::setenv(name.c_str(), value.c_str(), 1);
        value = before ? before : "";
        if (!before) absent_.insert(name);
      }
    }
    ~Environment() {
      for (const auto& [name, value] : variables_)
        absent_.count(name) ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }

   private:
    std::vector<std::pair<std::string, std::string>> variables_;
    std::set<std::string> absent_;
  };

  int program(const std::vector<std::string>& arguments) {
    test::Program program(folder_.path(), arguments);
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
  std::vector<std::int64_t> steps_in_metrics() const {
    std::vector<std::int64_t> steps;
    std::ifstream lines(run_ / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("loss")) steps.push_back(record["step"]);
    }
    return steps;
  }
};

TEST_F(Faults, AtAnyCallAFailureIsOneMessageWithExit6AndTheRunGoesOnToTheSameBits) {
  const auto calls = calls_of_a_whole_run();
  ASSERT_GT(calls.size(), 30u) << "the shim is not at work";
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    const std::string what = fmt::format("call {} of {}, {}", n, calls.size(), calls[n - 1]);
    const int code = train(int(n), "error");
    // Room that cannot be given back or taken again is no reason to end a run.
    const bool harmless = code == 0 && calls[n - 1].ends_with("/reserved");
    EXPECT_TRUE(harmless || code == int(ExitCode::resource)) << code << ", " << what << "\n" << output_;
    EXPECT_EQ(messages(), harmless ? 0 : 1) << what << "\n" << output_;
    expect_whole_and_resumable(what);
    fs::remove_all(folder_ / "runs");
  }
}

TEST_F(Faults, KilledInAnyCallTheRunGoesOnToTheSameBits) {
  const auto calls = calls_of_a_whole_run();
  ASSERT_GT(calls.size(), 30u) << "the shim is not at work";
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    const std::string what = fmt::format("call {} of {}, {}", n, calls.size(), calls[n - 1]);
    EXPECT_EQ(train(int(n), "kill"), 128 + SIGKILL) << what << "\n" << output_;
    expect_whole_and_resumable(what);
    fs::remove_all(folder_ / "runs");
  }
}

TEST_F(Faults, KilledWhileAnEarlierRunIsMovedItsRecordsStayWithItsCheckpoints) {
  ASSERT_EQ(train(0, "error"), 0) << output_;
  fs::rename(folder_ / "runs", folder_ / "first");
  const auto begin_again = [&](int fault, const std::string& log = {}) {
    fs::remove_all(folder_ / "runs");
    fs::copy(folder_ / "first", folder_ / "runs", fs::copy_options::recursive);
    return train(fault, "kill", log, "no");
  };
  const auto log = (folder_ / "again.txt").string();
  ASSERT_EQ(begin_again(0, log), 0) << output_;
  const auto calls = lines_of(log);
  ASSERT_GT(calls.size(), 30u) << "the shim is not at work";
  for (std::size_t n = 1; n <= calls.size(); ++n) {
    const std::string what = fmt::format("call {} of {}, {}", n, calls.size(), calls[n - 1]);
    ASSERT_EQ(begin_again(int(n)), 128 + SIGKILL) << what;
    { const RunFolder next(run_); }  // what the next start sees
    const fs::path moved = run_ / "before-1", there = fs::exists(moved) ? moved : run_;
    for (const char* file : {"checkpoints/step_00000003.h5", "metrics.jsonl", "recipe.toml", "device.txt"})
      EXPECT_TRUE(fs::exists(there / file)) << what << ": " << there / file;
    if (moved != there) continue;
    EXPECT_EQ(fs::file_size(moved / "metrics.jsonl"), fs::file_size(folder_ / "first/tiny/metrics.jsonl"))
        << what;
  }
}

// What a power cut may leave is decided by the order of the calls: content before its name, a new name before
// the old file goes.
TEST_F(Faults, ContentIsOnTheDiskBeforeItsNameAndTheNameBeforeAnyOtherGoes) {
  std::set<std::string> unsynced;  // files with bytes, folders with names, that a power cut may undo
  int renames = 0, removals = 0;
  for (const auto& line : calls_of_a_whole_run()) {
    std::istringstream words(line);
    std::string call, path, to;
    words >> call >> path >> to;
    const auto absolute = [&](const fs::path& p) {
      return fs::weakly_canonical(folder_.path() / p).string();
    };
    if (call == "write") unsynced.insert(absolute(path));
    if (call == "fsync") unsynced.erase(absolute(path));
    if (call == "rename") {
      renames += to.find("device.txt") == std::string::npos;  // written with every checkpoint
      EXPECT_EQ(unsynced.count(absolute(path)), 0u) << line;
      unsynced.insert(absolute(fs::path(to).parent_path()));
    }
    if (call == "remove" && path.ends_with(".h5")) {
      ++removals;
      EXPECT_EQ(unsynced.count(absolute(fs::path(path).parent_path())), 0u) << line;
    }
  }
  EXPECT_EQ(renames, 4) << "the recipe and three checkpoints";
  EXPECT_EQ(removals, 2) << "all checkpoints but one";
}

}  // namespace
}  // namespace mxtape
