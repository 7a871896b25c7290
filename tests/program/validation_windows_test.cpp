#include <gtest/gtest.h>

#include "recipes/recipe.h"
#include "recipes/shipped.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

TrainConfig train(std::int64_t steps, std::int64_t every, std::int64_t windows = auto_windows) {
  return {.steps = steps, .batch_size = 12, .accumulation = 2, .eval_every = every, .eval_windows = windows};
}

TEST(ValidationWindows, AutoTakesAFifthOfTheWorkOfTheStepsInBetween) {
  constexpr std::int64_t many = 1'000'000;
  // 24 sequences a step, each 3 times the work of a validation window.
  EXPECT_EQ(validation_windows(train(1000, 250), many), 250 * 24 * 3 / 5);
  EXPECT_EQ(validation_windows(train(1000, 0), many), 1000 * 24 * 3 / 5) << "one validation, at the end";
  EXPECT_EQ(validation_windows(train(100, 250), many), 100 * 24 * 3 / 5) << "the steps that there are";
  EXPECT_EQ(validation_windows(train(1000, 250), 77), 77) << "no more than the split has";
  EXPECT_EQ(validation_windows({.steps = 9, .batch_size = 1, .eval_every = 1}, many), 1) << "never none";
}

TEST(ValidationWindows, AutoStaysInRangeForTheLargestNumbersOfARecipe) {
  const TrainConfig largest{
      .steps = (std::int64_t{1} << 32) / 2, .batch_size = 1 << 20, .accumulation = 1, .eval_every = 0};
  EXPECT_EQ(validation_windows(largest, std::int64_t{1} << 62), (std::int64_t{3} << 51) / 5);
}

TEST(ValidationWindows, ANumberIsAnUpperLimitAndAllIsAll) {
  EXPECT_EQ(validation_windows(train(10, 1, 5), 77), 5);
  EXPECT_EQ(validation_windows(train(10, 1, 500), 77), 77);
  EXPECT_EQ(validation_windows(train(10, 1, 0), 77), 77);
}

TEST(ValidationWindows, TheShareIsThatOfAllValidationsInTheWholeRun) {
  // Steps 4, 8 and 10: 3 validations of 48 windows beside 10 steps of 24 sequences at 3 windows each.
  EXPECT_DOUBLE_EQ(validation_share(train(10, 4), 48), 144.0 / (144 + 720));
  EXPECT_DOUBLE_EQ(validation_share(train(10, 0), 72), 72.0 / (72 + 720));
}

// tinyshakespeare: 111,540 tokens for validation. Their losses are published, so the windows may not change.
TEST(ValidationWindows, TheShippedCharacterModelsSeeTheirWholeSplit) {
  int seen = 0;
  for (const auto& shipped : shipped_recipes()) {
    if (!shipped.name.starts_with("shakespeare")) continue;
    const Recipe r = read_recipe(std::string(shipped.name));
    const std::int64_t all = (111'540 - 1) / r.model.context;
    EXPECT_EQ(validation_windows(r.train, all), all) << shipped.name;
    ++seen;
  }
  EXPECT_GE(seen, 14);
}

}  // namespace
}  // namespace mxtape
