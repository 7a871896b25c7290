#pragma once
#include <chrono>
#include <fstream>

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
