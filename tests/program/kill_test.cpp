// kill -9 at random moments of training and saving. Each process goes on from what the last one left; every
// checkpoint that is there must hold the bits of an undisturbed run, and none that was there may be lost.
#include <chrono>
#include <random>

#include "tests/program/fault_fixture.h"
#include "tests/support/nightly.h"
#include "train/trainer.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class Kills : public testing::Test {
 protected:
  Kills() {
    tiny_data().write(folder_ / "data.h5");
    Recipe recipe = tiny_mxfp4_recipe(steps_);
    recipe.model.layers = 1;
    recipe.data.file = "data.h5";
    recipe.train.save_every = 1;
    recipe.train.keep = 2;
    recipe.compute.threads = 1;
    write_atomically(folder_ / "tiny.toml", to_toml(recipe));
    undisturbed(read_recipe((folder_ / "tiny.toml").string()));
  }

  /// Every loss and every checkpoint of a run in this process.
  void undisturbed(const Recipe& recipe) {
    const TokenFile data = TokenFile::read(folder_ / "data.h5");
    const auto backend = make_backend("cpu");
    Trainer trainer(*backend, recipe, data);
    files_.emplace_back();
    losses_.push_back(0);
    while (!trainer.finished()) {
      losses_.push_back(trainer.step().loss);
      const auto file = folder_ / "reference.h5";
      trainer.save(file);
      files_.push_back(read_whole(file));
      fs::remove(file);
    }
  }

  /// What a process left: whole checkpoints of the right bits, with the losses up to them. Returns the newest
  /// step.
  std::int64_t expect_sound(const std::string& what) const {
    const auto files = list_checkpoints(run_);
    for (const auto& file : files) {
      EXPECT_NO_THROW(CheckpointFile{file}) << what;
      EXPECT_TRUE(read_whole(file) == files_[std::size_t(*step_of_checkpoint(file))]) << what << ": " << file;
    }
    const std::int64_t newest = files.empty() ? 0 : *step_of_checkpoint(files.front());
    const auto losses = losses_on_record();
    EXPECT_GE(std::int64_t(losses.size()), newest) << what << ": records are lost";
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_EQ(losses[i], losses_[i + 1]) << what << ": loss " << i + 1;
    return newest;
  }
  std::vector<double> losses_on_record() const {
    std::vector<double> losses;
    std::ifstream lines(run_ / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line, nullptr, false);
      if (record.is_object() && record.contains("loss")) losses.push_back(record["loss"]);
    }
    return losses;
  }

  static constexpr std::int64_t steps_ = 40;
  const TemporaryFolder folder_;
  const fs::path run_ = folder_ / "runs/tiny";
  std::vector<std::vector<std::byte>> files_;  ///< the checkpoints of an undisturbed run, by step
  std::vector<double> losses_;
};

TEST_F(Kills, AtRandomMomentsLoseNoCheckpointAndChangeNoBit) {
  const int want = is_nightly() ? 1000 : 100, want_inside = want * 3 / 10;
  const char* asked = std::getenv("MXTAPE_SEED");
  const std::uint64_t seed = asked ? std::stoull(asked) : is_nightly() ? std::random_device()() : 1;
  std::mt19937_64 random(seed);
  const auto begin = Clock::now();
  const std::vector<std::string> words{"train", "tiny.toml", "--resume=auto"};
  ASSERT_EQ(run_program(folder_.path(), words).code, 0);
  const double life = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  int points = 0, inside = 0, finished = 0;
  std::int64_t newest = 0;
  for (int processes = 0; points < want || inside < want_inside; ++processes) {
    ASSERT_LT(processes, 10 * want) << "the program ends before it is killed, or is not killed inside saves";
    if (newest == steps_) {
      fs::remove_all(run_);
      newest = 0;
      ++finished;
    }
    Program program(folder_.path(), words);
    ::usleep(useconds_t(double(random() % 1000) / 1000 * life / 2));
    program.send(SIGKILL);
    const int code = program.wait();
    ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << program.output();
    const std::string what = fmt::format("seed {}, process {}, from step {}", seed, processes, newest);
    const std::int64_t now = expect_sound(what);
    EXPECT_GE(now, newest) << what << ": a checkpoint is lost";
    if (code != 0) {
      ++points;
      // A save begins by giving back the room that is reserved for it, and ends by reserving it again.
      inside +=
          std::int64_t(losses_on_record().size()) > newest && now < steps_ && !fs::exists(run_ / "reserved");
    }
    newest = now;
    if (HasFailure()) break;
  }
  EXPECT_EQ(run_program(folder_.path(), words).code, 0);
  EXPECT_EQ(expect_sound("to the end"), steps_);
  fmt::print("killed at {} moments, {} of them inside a save; {} runs came to their end (seed {})\n", points,
             inside, finished + 1, seed);
}

}  // namespace
}  // namespace mxtape::test
