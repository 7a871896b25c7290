// What a sweep's file says, and what is refused before anything runs.
#include "recipes/sweep/sweep_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "recipes/sweep/arm_checks.h"
#include "recipes/sweep/referee_file.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {
namespace {

const std::string head = "base = \"demo-bf16\"\nbaseline = \"bf16\"\nseeds = 3\ntolerance = 0.02\n";
const std::string two_arms =
    "[[arm]]\nname = \"bf16\"\n[[arm]]\nname = \"mxfp4\"\nrecipe = \"precision/mxfp4\"\n";

class SweepFile : public testing::Test {
 protected:
  Sweep read(const std::string& text) const {
    write_atomically(folder_ / "sweep.toml", text);
    return sweep_of(SweepText((folder_ / "sweep.toml").string()));
  }
  /// The message without the folder, or "" if it is read.
  std::string refusal(const std::string& text) const {
    try {
      (void)read(text);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage) << e.what();
      std::string message = e.what();
      const std::string folder = folder_.path().string() + "/";
      for (auto at = message.find(folder); at != std::string::npos; at = message.find(folder))
        message.erase(at, folder.size());
      return message;
    }
  }
  void refuses(const std::string& text, const std::string& message) const {
    EXPECT_NE(refusal(text).find(message), std::string::npos)
        << "no '" << message << "' in: " << refusal(text) << "\nof\n"
        << text;
  }

  const TemporaryFolder folder_;
};

TEST_F(SweepFile, ArmsAreBaseThenSetThenTheirRecipesThenTheirOwnSet) {
  const Sweep sweep = read(head + "[set]\ntrain.steps = 500\noptim.beta2 = 0.9\n" + two_arms +
                           "set.optim.beta2 = 0.95\nset.precision.weights = \"mxfp6\"\n");
  EXPECT_EQ(sweep.seeds, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(SweepText((folder_ / "sweep.toml").string()).tolerance, 0.02);
  ASSERT_EQ(sweep.arms.size(), 2u);
  const Recipe &bf16 = sweep.baseline_arm().recipe, &mxfp4 = sweep.arms[1].recipe;
  EXPECT_EQ(bf16.precision.weights, "bf16");
  EXPECT_EQ(bf16.train.steps, 500);
  EXPECT_EQ(bf16.optim.beta2, 0.9f);
  EXPECT_EQ(mxfp4.precision.activations, "mxfp4 rule=even");
  EXPECT_EQ(mxfp4.precision.weights, "mxfp6");
  EXPECT_EQ(mxfp4.optim.beta2, 0.95f);
  EXPECT_EQ(mxfp4.train.steps, 500);
  for (const SweepArm& arm : sweep.arms) {
    EXPECT_EQ(arm.recipe.train.sample_tokens, 0);
    EXPECT_EQ(arm.recipe.train.keep, 1);
  }
}

TEST_F(SweepFile, TheGridsCombinationsAreArmsInTheOrderOfTheFile) {
  const Sweep sweep = read(
      "base = \"demo-bf16\"\nbaseline = \"gradients=mxfp4,weights=mxfp8\"\nseeds = [7, 9]\ntolerance = 1\n"
      "[grid]\nprecision.gradients = [\"mxfp4\", \"mxfp4 round=stochastic\"]\nprecision.weights = "
      "[\"mxfp8\", "
      "\"mxfp6\"]\n");
  std::vector<std::string> names;
  for (const SweepArm& arm : sweep.arms) names.push_back(arm.name);
  EXPECT_EQ(names, (std::vector<std::string>{"gradients=mxfp4,weights=mxfp8", "gradients=mxfp4,weights=mxfp6",
                                             "gradients=mxfp4_round=stochastic,weights=mxfp8",
                                             "gradients=mxfp4_round=stochastic,weights=mxfp6"}));
  EXPECT_EQ(sweep.arms[2].recipe.precision.gradients, "mxfp4 round=stochastic");
  EXPECT_EQ(sweep.arms[2].recipe.precision.weights, "mxfp8");
  EXPECT_EQ(sweep.seeds, (std::vector<std::uint64_t>{7, 9}));
}

TEST_F(SweepFile, AGridTakesRecipesAndFilesBesideTheSweep) {
  write_atomically(folder_ / "mine.toml", "[precision]\nweights = \"mxint8\"\n");
  const Sweep sweep = read(
      "base = \"demo-bf16\"\nbaseline = \"recipe=precision-bf16\"\nseeds = 2\ntolerance = 1\n"
      "[grid]\nrecipe = [\"precision/bf16\", \"mine.toml\"]\n");
  EXPECT_EQ(sweep.arms[1].name, "recipe=mine.toml");
  EXPECT_EQ(sweep.arms[1].recipe.precision.weights, "mxint8");
}

TEST_F(SweepFile, RefusesWhatItDoesNotKnowWithPlaceAndNearestName) {
  refuses("basis = \"demo-bf16\"\n" + head + two_arms,
          "sweep.toml:1:1: unknown key or section 'basis' of a sweep; did you mean 'base'");
  refuses(head + two_arms + "[[arm]]\nname = \"" + std::string(201, 'a') + "\"\n",
          "its name has 201 bytes; want at most 200");
  refuses(head + "[set]\noptim.betta2 = 0.9\n" + two_arms,
          "sweep.toml:6:7: unknown key 'optim.betta2'; did you mean");
  refuses(head + "[set]\noptim.beta2 = 1.5\n" + two_arms, "optim.beta2 = 1.5; want a number in [0, 1)");
  refuses(head + "[set]\nprecision = \"mxfp4\"\n" + two_arms,
          "precision = 'mxfp4'; want a section: [precision]");
  refuses(head + "[set]\nextends = \"demo-bf16\"\n" + two_arms, "set.extends; want `recipe = ...`");
  refuses(head + two_arms + "recipes = \"x\"\n", "unknown key 'arm.recipes'; did you mean 'recipe'?");
  refuses(head + two_arms + "[grid]\noptim.beta3 = [0.9]\n", "unknown key 'optim.beta3'");
  refuses(head + two_arms + "[grid]\noptim.beta2 = 0.5\n", "grid: optim.beta2 = 0.5; want a list of values");
  refuses(head + two_arms + "[grid]\noptim.beta2 = [0.9, 2]\n", "optim.beta2 = 2; want a number in [0, 1)");
  refuses(head + two_arms + "[grid]\nprecision.rules = [1]\n", "grid: precision.rules has no single values");
  refuses(head + head + two_arms, "sweep.toml:5:");
  refuses("base = \"demo-bf17\"\nbaseline = \"bf16\"\nseeds = 3\ntolerance = 0.02\n" + two_arms,
          "sweep.toml:1:8: base: no recipe file");
  refuses(head + "[[arm]]\nname = \"bf16\"\n[[arm]]\nname = \"b\"\nrecipe = \"precision/mxfp5\"\n",
          "sweep.toml:9:1: recipe: no recipe file");
  refuses(head + two_arms + "[[arm]]\nrecipe = \"precision/mxfp8\"\n", "this arm has no 'name'");
  refuses(head + two_arms + "[[arm]]\nname = \"a/b\"\n", "name = 'a/b'; the name becomes a folder's name");
}

TEST_F(SweepFile, RefusesHeadsThatAskNoQuestion) {
  const auto with = [](const char* seeds, const char* tolerance) {
    return fmt::format("base = \"demo-bf16\"\nbaseline = \"bf16\"\nseeds = {}\ntolerance = {}\n{}", seeds,
                       tolerance, two_arms);
  };
  refuses(with("0", "0.1"), "seeds = 0; want how many, 1 to 1000, or a list of different integers >= 0");
  refuses(with("[1, 1]", "0.1"), "seeds = [ 1, 1 ]; want");
  refuses(with("[-1]", "0.1"), "want how many");
  refuses(with("[]", "0.1"), "want how many");
  refuses(with("\"3\"", "0.1"), "want how many");
  refuses(with("3", "0"), "tolerance = 0; want the gap in nats per token that counts as none, a number > 0");
  refuses(with("3", "nan"), "a number > 0");
  refuses("base = \"demo-bf16\"\nbaseline = \"bf16\"\nseeds = 3\n" + two_arms,
          "no 'tolerance'; want the gap in nats per token that counts as none, a number > 0: tolerance = "
          "0.02 is 2 % of "
          "perplexity");
  refuses(head, "0 arms; want at least two");
  refuses("baseline = \"bf16\"\nseeds = 3\ntolerance = 0.02\n" + two_arms, "no 'base'; want");
  refuses("extends = \"demo-bf16\"\n[data]\nfile = \"mine.h5\"\n",
          "sweep.toml: this is a recipe; `mxtape train ");
  refuses("seed = 3\n", "A sweep is a file with base = \"sweep.toml\", baseline, seeds, tolerance and arms");
  refuses("sed = 3\n", "unknown key or section 'sed'");
  refuses("base = \"demo-bf16\"\nbaseline = \"bf61\"\nseeds = 3\ntolerance = 0.02\n" + two_arms,
          "sweep.toml:2:12: baseline = \"bf61\" is no arm; did you mean 'bf16'?");
}

TEST_F(SweepFile, RefusesArmsThatTrainAlike) {
  refuses(head + two_arms + "[[arm]]\nname = \"again\"\nrecipe = \"precision/mxfp4\"\n",
          "arm 'again' trains as arm 'mxfp4' (sweep.toml:7) does: nothing differs");
  refuses(head + two_arms +
              "[[arm]]\nname = \"alias\"\nset.precision.weights = \"mxfp4 rule=even\"\n"
              "set.precision.activations = \"e2m1 block=32 scale=e8m0 rule=even\"\n"
              "set.precision.gradients = \"mxfp4 rule=even round=stochastic\"\n",
          "arm 'alias' trains as arm 'mxfp4'");
  refuses(
      head + two_arms + "[[arm]]\nname = \"saves\"\nset.train.save_every = 5\n",
      "arm 'saves' trains as arm 'bf16' (sweep.toml:5) does: train.save_every: 0 -> 5 has no effect here");
  refuses(head + two_arms + "[[arm]]\nname = \"bf16\"\n", "a second arm 'bf16'");
  refuses(head + two_arms + "[grid]\noptim.beta2 = [0.95, 0.95]\n", "a second arm 'beta2=0.95'");
}

TEST_F(SweepFile, TakesAnArmThatIsAnotherOnlyAfterARollback) {
  const std::string rule = "[[arm.set.precision.phases.rules]]\nlayers = \"blocks.*\"\nformat = \"bf16\"\n",
                    late = "[[arm.set.precision.phases]]\nstart_fraction = 0.9\n" + rule,
                    after = "[[arm.set.precision.phases]]\nstart_rollback = 1\n" + rule;
  const std::string arms = head + "[set]\ntrain.on_divergence = \"rollback\"\n" + two_arms + late +
                           "[[arm]]\nname = \"careful\"\nrecipe = \"precision/mxfp4\"\n" + late;
  refuses(arms, "arm 'careful' trains as arm 'mxfp4'");
  EXPECT_EQ(refusal(arms + after), "");
}

TEST_F(SweepFile, RefusesKeysWithoutEffectInTheirArm) {
  refuses(head + two_arms + "[arm.set]\nschedule.decay_fraction = 0.3\n",
          "schedule.decay_fraction has no effect in arm 'mxfp4': schedule.kind is not wsd; leave it out");
  refuses(head + two_arms + "[arm.set]\ntrain.keep = 3\ntrain.save_minutes = 0\n",
          "train.keep has no effect in arm 'mxfp4': one checkpoint is written, at the end");
  // A rule of the arm decides all that the key names.
  refuses(
      head + two_arms +
          "[arm.set]\nprecision.head = \"mxfp8\"\n[[arm.set.precision.rules]]\nlayers = \"head\"\nformat = "
          "\"mxfp6\"\n",
      "sweep.toml:11:11: precision.head has no effect in arm 'mxfp4': it trains the same without it");
  // A later rule shadows an earlier one.
  refuses(head + two_arms +
              "[[arm.set.precision.rules]]\nlayers = \"blocks.0.*\"\nslots = [\"*.w\"]\nformat = \"mxfp6\"\n"
              "[[arm.set.precision.rules]]\nlayers = \"*\"\nslots = [\"*.w\"]\nformat = \"mxfp8\"\n",
          "precision.rules 1 has no effect in arm 'mxfp4'");
  refuses(head +
              "[set]\nprecision.weights = \"mxint8\"\n[[arm]]\nname = \"bf16\"\nrecipe = \"precision/bf16\"\n"
              "[[arm]]\nname = \"mxfp4\"\nrecipe = \"precision/mxfp4\"\n",
          "sweep.toml:6:11: precision.weights has no effect in any arm");
  EXPECT_EQ(refusal(head + "[set]\nprecision.weights = \"mxint8\"\n[[arm]]\nname = \"bf16\"\nrecipe = "
                           "\"precision/bf16\"\n[[arm]]\nname = \"int8\"\n"),
            "")
      << "it has one in an arm";
  EXPECT_EQ(refusal(head + two_arms + "[arm.set]\noptim.beta2 = 0.99\n"), "")
      << "what the base says, said again";
}

TEST_F(SweepFile, RefusesPatternsThatMatchNothingAndNamesTheArm) {
  refuses(head + two_arms + "[[arm.set.precision.rules]]\nlayers = \"blocks.9.*\"\nformat = \"mxfp6\"\n",
          "sweep.toml:7: arm 'mxfp4': sweep.toml:10: no layer matches 'blocks.9.*'");
  refuses(head + "[set]\nschedule.warmup_steps = 2000\n" + two_arms,
          "arm 'bf16': recipe bf16: schedule.warmup_steps");
}

TEST_F(SweepFile, RefusesArmsThatCannotBePaired) {
  for (const std::string change : {"model.width = 64", "model.gelu = \"erf\"", "data.file = \"other.h5\"",
                                   "train.steps = 7\nset.schedule.warmup_steps = 1", "train.batch_size = 3",
                                   "train.accumulation = 2", "train.eval_windows = 3"})
    refuses(head + two_arms + "set." + change + "\n", "arm 'mxfp4' differs from the baseline 'bf16' in");
  for (const std::string change : {"model.dropout = 0.1", "optim.learning_rate = 1e-3",
                                   "schedule.kind = \"linear\"", "compute.activations = \"bf16\""})
    EXPECT_EQ(refusal(head + two_arms + "set." + change + "\n"), "") << change;
}

TEST(SweepExamples, AllAreReadAndComparedWithBf16) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MXTAPE_SOURCE "/examples/sweeps")) {
    const Sweep sweep = sweep_of(SweepText(entry.path().string()));
    EXPECT_TRUE(sweep.baseline.find("bf16") != std::string::npos) << entry.path();
    EXPECT_GE(sweep.arms.size(), 3u) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(RefereeExamples, AllAreReadWithAllArmsAtAllPoints) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MXTAPE_SOURCE "/examples/referee")) {
    const RefereeFile file(entry.path().string());
    const std::size_t wanted = entry.path().stem() == "law" ? 3 : 2;  // a law wants three of both
    EXPECT_GE(std::min(file.sizes.size(), file.lengths.size()), wanted) << entry.path();
    for (const Point& point : file.points)
      EXPECT_EQ(file.sweep(point).arms.size(), file.arms.size()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST_F(SweepFile, RefusesKeysThatTheSweepDecidesAndSaysWhereTheyGo) {
  refuses(head + "[set]\nseed = 4\n" + two_arms,
          "seed is the sweep's to set: the sweep's key 'seeds' lists them");
  refuses(head + two_arms + "set.train.out = \"x\"\n",
          "train.out is the sweep's to set: --out names the folder");
  refuses(head + two_arms + "[grid]\ncompute.threads = [1, 2]\n",
          "compute.threads is the sweep's to set: --jobs");
}

}  // namespace
}  // namespace mxtape::test
