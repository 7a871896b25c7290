// A step that is computed again.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "program/run/replay.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class ReplayTest : public ProgramTest {
 protected:
  /// What `mxtape replay` prints with --json, without what goes to standard error.
  Json replayed(std::vector<std::string> words) {
    words.insert(words.begin(), {"replay", "runs/tiny"});
    words.push_back("--json");
    EXPECT_EQ(run(words), 0) << output_;
    const auto begin = output_.find("{\n");
    return begin == std::string::npos ? Json() : Json::parse(output_.substr(begin));
  }
  std::map<std::string, std::vector<std::byte>> files() const {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "runs"))
      if (entry.is_regular_file()) all[entry.path().string()] = read_whole(entry.path());
    return all;
  }
};

TEST_F(ReplayTest, GivesEachRecordedLossAgainBitForBitAndWritesNothing) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.keep_every=3", "--train.steps=7"}), 0) << output_;
  const auto before = files();
  for (const auto& [step, from] : {std::pair{2, 0}, {4, 3}, {6, 3}, {7, 6}}) {
    const Json json = replayed({"--step", std::to_string(step)});
    EXPECT_EQ(json["same_bits"], true) << step;
    EXPECT_EQ(json["loss"], json["recorded_loss"]) << step;
    EXPECT_EQ(json["trained_again"], step - 1 - from) << step;
    EXPECT_EQ(json["checkpoint"].is_null(), from == 0) << step;
    EXPECT_TRUE(json["first_not_finite"].is_null()) << step;
    EXPECT_EQ(json["diverged"], "") << step;
  }
  EXPECT_TRUE(files() == before);
}

TEST_F(ReplayTest, ListsEveryTensorWithItsNumbers) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ASSERT_EQ(run({"replay", "runs/tiny", "--step", "2"}), 0) << output_;
  EXPECT_TRUE(says("from        the first step; 1 steps trained again before it"));
  EXPECT_TRUE(says(", bit for bit as on record"));
  EXPECT_TRUE(says("not finite  no number in "));
  EXPECT_TRUE(says("forward, micro-batch 3 of 3"));
  EXPECT_TRUE(says("quantize dgrad.dy"));
  const Json json = replayed({"--step", "2"});
  // MXFP4's magnitudes are at most 6 times a power of two, and its zeros many.
  for (const auto& tensor : json["tensors"]) {
    EXPECT_EQ(tensor["nans"], 0);
    EXPECT_EQ(tensor["infinities"], 0);
    EXPECT_LE(tensor["min"].get<double>(), tensor["max"].get<double>());
    EXPECT_LE(
        tensor["rms"].get<double>(),
        std::max(std::abs(tensor["min"].get<double>()), std::abs(tensor["max"].get<double>())) * (1 + 1e-12));
  }
  const auto count = [&](const char* layer, const char* name) {
    return std::count_if(json["tensors"].begin(), json["tensors"].end(), [&](const Json& tensor) {
      return tensor["layer"] == layer && tensor["tensor"] == name;
    });
  };
  EXPECT_EQ(count("head", "fprop.y"), 3);
  EXPECT_EQ(count("blocks.0.attn", "o"), 3);
  EXPECT_EQ(count("blocks.0.attn.qkv.weight", "parameter"), 1) << "the update";
}

TEST_F(ReplayTest, NamesTheFirstTensorOfAStepThatDiverged) {
  ASSERT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0",
                 "--train.save_every=1", "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged))
      << output_;
  const Json json = replayed({"--step", "2"});
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_NE(json["diverged"].get<std::string>().find("step 2: the "), std::string::npos);
  EXPECT_EQ(json["first_not_finite"]["layer"], "blocks.0.attn.qkv");
  EXPECT_EQ(json["first_not_finite"]["tensor"], "fprop.y");
  EXPECT_EQ(json["first_not_finite"]["pass"], "forward");
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "3"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--step 3: of runs/tiny there are steps 1 to 2 to replay"));
}

TEST_F(ReplayTest, RefusesWhatCannotBeComputedAgain) {
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "1"}), int(ExitCode::data));
  EXPECT_TRUE(says("runs/tiny: want the folder of a run"));
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_;
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "7"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--step 7: of runs/tiny there are steps 1 to 6 to replay"));
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "0"}), int(ExitCode::usage));
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "2", "--rollback", "1"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--rollback 1: runs/tiny has 0 rollbacks and switches"));
  {
    const RunFolder busy(folder_ / "runs/tiny");
    EXPECT_EQ(run({"replay", "runs/tiny", "--step", "2"}), int(ExitCode::resource));
    EXPECT_TRUE(says("another mxtape process is training in this folder; wait until it ends"));
  }
  // A branch cannot begin at step 0, and its first checkpoint is that of its end.
  write_atomically(folder_ / "new.toml", "[optim]\nbeta2 = 0.9\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/tiny@3"}), 0) << output_;
  EXPECT_EQ(run({"replay", "runs/new", "--step", "5"}), int(ExitCode::data));
  EXPECT_TRUE(
      says("no checkpoint of its own before step 5, and a branch can be replayed from its first one on"));
  EXPECT_EQ(run({"replay", "runs/new", "--step", "3"}), int(ExitCode::usage));
  EXPECT_TRUE(says("of runs/new there are steps 4 to 6 to replay"));
}

TEST_F(ReplayTest, WantsTheDataOfTheStepAndNotThoseOfTheCheckpointBeforeIt) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=3"}), 0) << output_;
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 7 == 0 ? "cat the cat " : "the cat sat ";
  write_atomically(folder_ / "other.txt", text);
  ASSERT_EQ(run({"prepare", "other.txt", "--tokenizer-of", "runs/tiny", "--out", "other.h5"}), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--resume=auto", "--allow-change=train.steps", "--allow-change=data",
                 "--data.file=other.h5"}),
            0)
      << output_;
  for (const char* step : {"2", "5"}) EXPECT_EQ(replayed({"--step", step})["same_bits"], true) << step;
  for (const auto& [step, data] : {std::pair{"2", "other.h5"}, {"5", "data.h5"}}) {
    EXPECT_EQ(run({"replay", "runs/tiny", "--step", step, "--data", data}), int(ExitCode::data)) << output_;
    EXPECT_TRUE(says(fmt::format("its content is not what runs/tiny was trained with at step {}", step)));
  }
  std::filesystem::remove(checkpoint(3));  // the one that is left was trained on with the other data
  EXPECT_EQ(replayed({"--step", "2"})["same_bits"], true);
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "5", "--data", "gone.h5"}), int(ExitCode::data));
}

TEST_F(ReplayTest, KnowsWhereTheRecipeChanged) {
  const std::vector<std::string> whole{"train", "tiny.toml", "--train.steps=4", "--train.keep_every=2"};
  ASSERT_EQ(run(whole), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=7", "--train.keep_every=2", "--optim.beta2=0.9",
                 "--resume=auto", "--allow-change=optim", "--allow-change=train.steps"}),
            0)
      << output_;
  for (const char* step : {"3", "4", "5", "7"})
    EXPECT_EQ(replayed({"--step", step})["same_bits"], true) << step;
  const std::string recipe = read_whole_text(folder_ / "runs/tiny/recipe.toml");
  std::string edited = recipe;
  edited.replace(edited.find("beta2 = 0.9"), 11, "beta2 = 0.8");
  write_atomically(folder_ / "runs/tiny/recipe.toml", edited);
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "7"}), int(ExitCode::data));
  EXPECT_TRUE(says("the run's recipe was edited since (optim.beta2: 0.9 -> 0.8); undo that"));
  write_atomically(folder_ / "runs/tiny/recipe.toml", recipe);
  // A change of no number after step 6 is the last one on record, but not the one where the replay begins.
  std::filesystem::remove(checkpoint(7));
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=7", "--train.keep_every=2", "--optim.beta2=0.9",
                 "--resume=auto", "--train.eval_every=5"}),
            0)
      << output_;
  std::filesystem::remove(checkpoint(6));
  EXPECT_EQ(replayed({"--step", "7"})["same_bits"], true);
  for (const int step : {4, 6, 7}) std::filesystem::remove(checkpoint(step));
  EXPECT_EQ(run({"replay", "runs/tiny", "--step", "6"}), int(ExitCode::data));
  EXPECT_TRUE(says("the recipe changed at step 4, and no checkpoint from there to step 5 is left"));
}

TEST_F(ReplayTest, ComputesStepsBeforeAndAfterARollback) {
  Recipe recipe = tiny_mxfp4_recipe(40);
  recipe.data.file = "data.h5";
  recipe.schedule.warmup_steps = 0;
  recipe.optim.learning_rate = 25;
  recipe.precision.weights = "e4m3";  // ends at 448, which weights of that learning rate soon pass
  recipe.train.on_divergence = OnDivergence::rollback;
  recipe.train.keep_every = 4;
  recipe.precision.phases = {{.start_rollback = 1, .rules = {{"*", {"*.w"}, "f32", "here"}}}};
  write_atomically(folder_ / "grows.toml", to_toml(recipe));
  ASSERT_EQ(run({"train", "grows.toml"}), 0) << output_;
  const auto from = std::int64_t(number_after("rollback 1 of at most 2: from step "));
  ASSERT_GT(from, 5);
  for (const std::int64_t step : {std::int64_t(2), std::int64_t(6), std::int64_t(40)})
    EXPECT_EQ(replayed({"--step", std::to_string(step)})["same_bits"], true) << step;
  EXPECT_EQ(replayed({"--step", std::to_string(from - 1), "--rollback", "1"})["same_bits"], true);
  const Json bad = replayed({"--step", std::to_string(from), "--rollback", "1"});
  EXPECT_EQ(bad["first_not_finite"]["tensor"], "fprop.w");
}

}  // namespace
}  // namespace mxtape::test
