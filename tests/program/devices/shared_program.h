#pragma once
#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "tests/program/program_fixture.h"

namespace mxtape::test {

/// A folder with data.h5 and shared.toml, a recipe of four strands, for runs on several processes.
class SharedProgram : public ProgramTest {
 protected:
  using Words = std::vector<std::string>;
  using Clock = std::chrono::steady_clock;

  SharedProgram() {
    Recipe recipe = tiny_mxfp4_recipe(8);
    recipe.name = "shared";
    recipe.model = {.layers = 1, .heads = 2, .width = 64, .context = 8, .dropout = 0.1f};
    recipe.train.batch_size = 2;
    recipe.train.strands = 4;
    recipe.train.accumulation = 1;
    recipe.train.save_every = 4;
    recipe.compute.bucket_kib = 32;  // several buckets
    recipe.data.file = "data.h5";
    write_atomically(folder_ / "shared.toml", to_toml(recipe));
  }
  static Words train(const Words& more = {}) {
    Words words{"train", "shared.toml"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::filesystem::path last(const std::string& run, std::int64_t step = 8) const {
    return folder_ / fmt::format("runs/{}/checkpoints/step_{:08}.h5", run, step);
  }
  /// Whether two checkpoints hold the same tensors, header and text of the recipe, but for the name of the
  /// run.
  bool same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b) {
    const auto recipe = [](const std::filesystem::path& file) {
      const std::string text = Hdf5Reader(file).text_attribute("/", "recipe");
      return text.substr(text.find("description"));  // which follows the name
    };
    return run({"diff", a.string(), b.string()}) == 0 && recipe(a) == recipe(b);
  }
  int times(const std::string& text) const {
    int count = 0;
    for (std::size_t at = output_.find(text); at != std::string::npos; at = output_.find(text, at + 1))
      ++count;
    return count;
  }

  /// `on(count, words)` starts so many processes.
  template <class On>
  void expect_said_once(const On& on) {
    EXPECT_EQ(on(3, train({"--train.stepps=3"})), 2) << output_;
    EXPECT_EQ(times("stepps"), 1) << output_;
    EXPECT_EQ(on(3, train({"--data.file=none.h5"})), 3) << output_;
    EXPECT_EQ(times("mxtape: none.h5: no such token file"), 1) << output_;
    ASSERT_EQ(on(2, train()), 0) << output_;
    EXPECT_EQ(on(2, train()), 2) << output_;  // checkpoints are in the way: rank 0 alone sees them
    EXPECT_EQ(times("add --resume auto"), 1) << output_;
  }

  static std::string read_proc(pid_t pid, const char* name) {
    std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static pid_t parent_of(pid_t pid) {
    std::istringstream after_name(read_proc(pid, "stat"));
    std::string state;
    pid_t parent = 0;
    after_name.ignore(std::numeric_limits<std::streamsize>::max(), ')') >> state >> parent;
    return parent;
  }
  /// Processes of the run by rank, once there are so many. `rank_of`: of a process, or nothing.
  template <class RankOf>
  static std::vector<pid_t> processes_of(const Program& run, std::size_t count, const RankOf& rank_of) {
    for (;; ::usleep(2000)) {
      std::map<int, pid_t> found;
      for (const auto& entry : std::filesystem::directory_iterator("/proc"))
        if (const pid_t pid = std::atoi(entry.path().filename().c_str()); pid > 0)
          if (const std::optional<int> rank = rank_of(pid)) found[*rank] = pid;
      std::vector<pid_t> all;
      for (const auto& [rank, pid] : found) all.push_back(pid);
      if (all.size() == count || !run.running()) return all;
    }
  }
  static void wait_for_the_end_of(const std::vector<pid_t>& pids) {
    const auto begin = Clock::now();
    const auto left = [&] {
      return std::any_of(pids.begin(), pids.end(), [](pid_t pid) { return ::kill(pid, 0) == 0; });
    };
    while (left() && Clock::now() - begin < std::chrono::seconds(30)) ::usleep(10'000);
    EXPECT_FALSE(left()) << "a process of the run has not ended";
  }

  /// Long enough to be hit anywhere.
  static Words long_run(const std::string& name, const Words& more = {}) {
    Words words = train({"--name=" + name, "--train.steps=400", "--train.save_every=20", "--train.keep=100",
                         "--schedule.warmup_steps=2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void train_whole() { ASSERT_EQ(run(long_run("whole")), 0) << output_; }
  /// The run ends as the undisturbed one, on one process.
  void expect_whole(const std::string& name) {
    ASSERT_EQ(run(long_run(name, {"--resume", "auto"})), 0) << output_;
    EXPECT_TRUE(same_checkpoint(last("whole", 400), last(name, 400))) << output_;
  }
  /// Waits until the run has written so much of its records.
  template <class Running>
  void wait_for_records(const Running& running, const std::string& name, std::uintmax_t bytes) const {
    const auto file = folder_ / "runs" / name / "metrics.jsonl";
    std::error_code missing;
    while (running()) {
      const auto size = std::filesystem::file_size(file, missing);
      if (!missing && size >= bytes) return;
      ::usleep(1000);
    }
  }
};

}  // namespace mxtape::test
