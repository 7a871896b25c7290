#pragma once
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files/atomic_file.h"
#include "program/records/run_folder.h"
#include "tests/program/program.h"
#include "tests/support/nightly.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint.h"

namespace mxtape::test {

/// What tests/support/faults/shim.cpp does to a program.
struct Fault {
  std::string at = "";  ///< the number of the call that it befalls, or "all"; "": none
  const char* how = "error";
  const char* calls = "changes";
  std::string log = "";  ///< a file for all calls
  bool alone = false;    ///< of the program, not of those that it starts
};

/// A run of two steps that saves after each one and keeps one checkpoint: the second save also removes.
class FaultTest : public testing::Test {
 protected:
  FaultTest() {
    tiny_data().write(folder_ / "data.h5");
    Recipe recipe = tiny_mxfp4_recipe(last_step);
    recipe.data.file = "data.h5";
    recipe.train.save_every = 1;
    recipe.train.keep = 1;
    recipe.compute.threads = 1;
    write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  }

  /// The exit code of the program, started with a fault.
  int run(const std::vector<std::string>& arguments, const Fault& fault = {}) {
    // The sanitizers' runtime wants to be loaded before any other library; it works after this one too.
    const char* asan = std::getenv("ASAN_OPTIONS");
    const std::string options = std::string(asan ? asan : "") + ":verify_asan_link_order=0";
    const Environment environment{{"LD_PRELOAD", MXTAPE_FAULT_SHIM},
                                  {"ASAN_OPTIONS", options},
                                  {"MXT_FAULT_HOW", fault.how},
                                  {"MXT_FAULT_CALLS", fault.calls},
                                  {fault.at.empty() ? "MXT_FAULT_NONE" : "MXT_FAULT_AT", fault.at},
                                  {fault.alone ? "MXT_FAULT_ALONE" : "MXT_FAULT_ALL", "1"},
                                  {fault.log.empty() ? "MXT_FAULT_NO_LOG" : "MXT_FAULT_LOG", fault.log}};
    return run_plainly(arguments);
  }
  int run_plainly(const std::vector<std::string>& arguments) {
    Program program(folder_.path(), arguments);
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
  int train(const Fault& fault = {}, const char* resume = "auto") {
    return run({"train", "tiny.toml", std::string("--resume=") + resume}, fault);
  }

  /// The calls of a command that nothing befalls.
  std::vector<std::string> calls_of(const std::vector<std::string>& arguments, const char* calls = "changes",
                                    bool alone = false) {
    const auto log = folder_ / "calls.txt";
    std::filesystem::remove(log);
    EXPECT_EQ(run(arguments, {.calls = calls, .log = log.string(), .alone = alone}), 0) << output_;
    std::vector<std::string> lines;
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    EXPECT_FALSE(lines.empty()) << "the shim is not at work";
    return lines;
  }
  /// The numbers of the calls to fail. HDF5 reads one file in hundreds of pieces by the same code: of equal
  /// calls, the first four and then each 16th; nightly all.
  static std::vector<std::size_t> chosen(const std::vector<std::string>& calls) {
    std::vector<std::size_t> numbers;
    std::map<std::string, int> seen;
    for (std::size_t n = 1; n <= calls.size(); ++n) {
      const int equal = seen[calls[n - 1]]++;
      if (equal < 4 || equal % 16 == 0 || is_nightly()) numbers.push_back(n);
    }
    return numbers;
  }
  /// Exit code 6 and one message with the system's cause.
  testing::AssertionResult is_refused(int code) const {
    bool named = false;
    for (const char* cause :
         {"Input/output error", "Too many open files", "Cannot allocate memory", "No space left on device",
          "HDF5 cannot open the file: can't retrieve stat info for file"})
      named = named || contains(output_, cause);
    if (messages() == 1 && code == int(ExitCode::resource) && named) return testing::AssertionSuccess();
    const auto at = output_.rfind("mxtape: ");
    return testing::AssertionFailure()
           << "code " << code << ", " << messages()
           << " messages: " << (at == std::string::npos ? output_ : output_.substr(at));
  }
  /// The calls of a whole run, which then is gone but for its last checkpoint, the reference.
  std::vector<std::string> calls_of_a_whole_run() {
    auto calls = calls_of({"train", "tiny.toml", "--resume=auto"});
    whole_ = read_whole(checkpoint(last_step));
    std::filesystem::remove_all(folder_ / "runs");
    return calls;
  }

  /// What must hold whatever happened: nothing under a final name is damaged, and the run goes on to its
  /// bits.
  void expect_whole_and_resumable(const std::string& what) {
    for (const auto& file : list_checkpoints(run_)) EXPECT_NO_THROW(CheckpointFile{file}) << what;
    if (std::filesystem::exists(run_ / "recipe.toml")) {
      EXPECT_NO_THROW(recipe_from_toml(read_whole_text(run_ / "recipe.toml"), "saved")) << what;
    }
    ASSERT_EQ(run_plainly({"train", "tiny.toml", "--resume=auto"}), 0) << what << "\n" << output_;
    expect_finished(what);
  }
  void expect_finished(const std::string& what) {
    EXPECT_TRUE(read_whole(checkpoint(last_step)) == whole_) << what << ": other bits";
    EXPECT_EQ(steps_in_metrics(), (std::vector<std::int64_t>{1, last_step})) << what;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run_))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << what << ": " << entry.path();
  }

  /// Lines of the last program's output that are errors.
  int messages() const {
    std::istringstream lines(output_);
    int count = 0;
    for (std::string line; std::getline(lines, line);) count += line.starts_with("mxtape: ");
    return count;
  }
  std::filesystem::path checkpoint(std::int64_t step) const {
    return run_ / fmt::format("checkpoints/step_{:08}.h5", step);
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

  static constexpr std::int64_t last_step = 2;
  const TemporaryFolder folder_;
  const std::filesystem::path run_ = folder_ / "runs/tiny";
  std::string output_;
  std::vector<std::byte> whole_;

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
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

   private:
    std::vector<std::pair<std::string, std::string>> variables_;
    std::set<std::string> absent_;
  };
};

}  // namespace mxtape::test
