#include "train/high_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

// What the bound is derived from, on models as they are made: the spread, and what it costs.
TEST(HighLoss, FollowsTheMeanLossOfUntrainedModels) {
  for (const float spread : {0.1f, 0.5f, 1.0f}) {
    constexpr int seeds = 50;
    double sum = 0, vocabulary = 0, guessing = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      Recipe recipe = tiny_recipe(1);
      recipe.seed = std::uint64_t(seed);
      recipe.model.layers = 1;
      recipe.model.init_deviation = spread / std::sqrt(32.0f);
      recipe.model.tied_head = false;  // a tied one knows the token that it was shown
      TinyRun run(recipe);
      const HighLoss high(run.trainer.recipe());
      EXPECT_NEAR(high.spread, spread, 1e-6);
      EXPECT_FALSE(high.starts_high());
      vocabulary = double(run.trainer.recipe().model.vocabulary);
      guessing = high.guessing;
      sum += run.trainer.step().loss;
    }
    // E ln mean exp z of V normal numbers, to second order; the targets' own logits average to 0, each seed's
    // with a deviation of at most spread / sqrt(V).
    const double s2 = double(spread) * double(spread);
    const double excess = s2 / 2 - (std::exp(s2) - 1) / (2 * vocabulary);
    EXPECT_NEAR(sum / seeds, guessing + excess, 3 * double(spread) / std::sqrt(vocabulary * seeds) + 0.02);
  }
}

TEST(HighLoss, NothingIsHighWhereThereIsNothingToGuess) {
  Recipe recipe = tiny_recipe(1);
  recipe.model.vocabulary = 1;
  EXPECT_EQ(remark_on_start(recipe), "");
}

TEST(HighLoss, IsAboveTwiceThatOfGuessing) {
  Recipe recipe = tiny_recipe(1);
  recipe.model.vocabulary = 100;
  const double most = 2 * std::log(100.0);
  EXPECT_EQ(remark_on_loss(recipe, 1, most * 0.999), "");
  EXPECT_NE(remark_on_loss(recipe, 1, most * 1.001).find("ln(100); look at precision and the data"),
            std::string::npos);
  EXPECT_NE(remark_on_loss(recipe, 2, most * 1.001).find("look at optim.learning_rate"), std::string::npos);
  recipe.model.init_deviation = float(std::sqrt(most / 32) * 1.001);
  EXPECT_NE(remark_on_loss(recipe, 1, most * 1.001).find("model.init_deviation = "), std::string::npos);
  EXPECT_NE(remark_on_start(recipe), "");
  recipe.model.init_deviation = float(std::sqrt(most / 32) * 0.999);
  EXPECT_EQ(remark_on_start(recipe), "");
}

}  // namespace
}  // namespace mxtape::test
