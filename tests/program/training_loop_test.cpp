// What a run does when something happens to it. A backend around the CPU's makes it happen at a given call.
#include "program/run/training_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "core/files/atomic_file.h"
#include "program/records/run_folder.h"
#include "program/records/run_log.h"
#include "tests/program/loop_run.h"

namespace mxtape::test {
namespace {

TEST(TrainingLoop, ASignalInsideAValidationSavesAtOnceAndTheValidationComesAgain) {
  Recipe recipe = tiny_mxfp4_recipe(8);
  recipe.train.eval_every = 4;
  LoopRun run(recipe), whole(recipe);
  run.disturbed.after_step = 4;
  run.disturbed.disturb = [] { std::raise(SIGTERM); };
  const std::string error = run.train();
  EXPECT_EQ(run.code, ExitCode::interrupted);
  EXPECT_NE(error.find("stopped by SIGTERM in the validation after step 4, which comes again"),
            std::string::npos)
      << error;
  ASSERT_TRUE(std::filesystem::exists(run.checkpoint(4)));
  EXPECT_TRUE(read_run_log(run.folder / "run").validation.empty());
  EXPECT_EQ(run.train(run.checkpoint(4)), "");
  EXPECT_EQ(whole.train(), "");
  EXPECT_EQ(read_whole(run.checkpoint(8)), read_whole(whole.checkpoint(8)));
  const RunLog resumed = read_run_log(run.folder / "run"), unbroken = read_run_log(whole.folder / "run");
  ASSERT_EQ(resumed.validation.size(), unbroken.validation.size());
  for (std::size_t i = 0; i < unbroken.validation.size(); ++i) {
    EXPECT_EQ(resumed.validation[i].step, unbroken.validation[i].step);
    EXPECT_EQ(resumed.validation[i].loss, unbroken.validation[i].loss);
  }
}

TEST(TrainingLoop, ASignalInTheLastValidationLeavesTheModelAndTheValidationComesAgain) {
  LoopRun run(recipe_of(6));
  run.disturbed.after_step = 6;
  run.disturbed.disturb = [] { std::raise(SIGTERM); };
  (void)run.train();
  EXPECT_EQ(run.code, ExitCode::interrupted);
  ASSERT_TRUE(std::filesystem::exists(run.checkpoint(6)));
  EXPECT_EQ(run.train(run.checkpoint(6)), "");
  EXPECT_EQ(read_run_log(run.folder / "run").validation.back().step, 6);
}

TEST(TrainingLoop, AFolderThatIsMovedWhileTheRunWritesThereGetsTheModel) {
  LoopRun run(recipe_of(6));
  run.disturbed.after_step = 3;
  run.disturbed.disturb = [&] { std::filesystem::rename(run.folder / "run", run.folder / "moved"); };
  EXPECT_EQ(run.train(), "");
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(6, "moved")));
  EXPECT_EQ(read_run_log(run.folder / "moved").train.back().step, 6);
}

TEST(TrainingLoop, RecordsThatAreRemovedCostNoModel) {
  LoopRun run(recipe_of(6));
  run.disturbed.after_step = 3;
  run.disturbed.disturb = [&] { std::filesystem::remove(run.folder / "run/metrics.jsonl"); };
  (void)run.train();
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(6)));
}

TEST(TrainingLoop, AStepThatDivergesIsSkippedIfTheRecipeSaysSoAndAResumeAgrees) {
  Recipe recipe = recipe_of(8);
  recipe.train.on_divergence = OnDivergence::skip;
  recipe.train.save_every = 5;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {3};
  ASSERT_EQ(run.train(), "");
  const RunLog log = read_run_log(run.folder / "run");
  EXPECT_EQ(log.train.size(), 7u);
  ASSERT_EQ(log.turns.size(), 1u);
  EXPECT_EQ(log.turns[0].event, "skip");
  EXPECT_EQ(log.turns[0].step, 3);
  LoopRun resumed(recipe);
  ASSERT_EQ(resumed.train(run.checkpoint(5)), "");
  EXPECT_EQ(read_whole(resumed.checkpoint(8)), read_whole(run.checkpoint(8)));
}

TEST(TrainingLoop, StepsThatWereSkippedBeforeAResumeCountAfterIt) {
  Recipe recipe = recipe_of(8);
  recipe.train.on_divergence = OnDivergence::skip;
  recipe.train.save_every = 1;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_NE(run.train().find("step 4: the gradient's norm is nan"), std::string::npos);
  EXPECT_NE(run.train(run.checkpoint(3)).find("step 4: the gradient's norm is nan"), std::string::npos);
}

TEST(TrainingLoop, AStepThatDivergesEndsTheRunUnlessItMayBeSkipped) {
  LoopRun run(recipe_of(8));
  run.disturbed.bad_norms = {3};
  EXPECT_NE(run.train().find("step 3: the gradient's norm is nan"), std::string::npos);
  EXPECT_EQ(run.code, ExitCode::diverged);
}

TEST(TrainingLoop, WeightsThatAreNotFiniteAreNotSaved) {
  LoopRun run(recipe_of(2));
  Trainer trainer(run.observed.backend, run.recipe, run.data);
  const Tensor& weight = trainer.model().parameters().at(3)->value;
  run.observed.backend.fill(weight, INFINITY);
  try {
    trainer.save(run.checkpoint(1));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::diverged);
    EXPECT_NE(std::string(e.what()).find("holds inf at [0] and is not saved"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(run.checkpoint(1)));
}

TEST(TrainingLoop, KeepsEveryMultipleTheBestAndTheNewest) {
  Recipe recipe = recipe_of(10);
  recipe.train.keep = 1;
  recipe.train.keep_every = 4;
  recipe.train.keep_best = true;
  recipe.train.eval_every = 3;
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  const RunLog log = read_run_log(run.folder / "run");
  const auto best = std::min_element(log.validation.begin(), log.validation.end(),
                                     [](auto& a, auto& b) { return a.loss < b.loss; });
  for (const std::int64_t step : {std::int64_t(4), std::int64_t(8), std::int64_t(10), best->step})
    EXPECT_TRUE(std::filesystem::exists(run.checkpoint(step))) << step;
  EXPECT_LE(list_checkpoints(run.folder / "run").size(), 4u);
}

TEST(TrainingLoop, KeepsAllWhereTheLogOfTheBestIsLostAlsoAfterASecondResume) {
  Recipe recipe = recipe_of(8);
  recipe.train.keep = 1;
  recipe.train.keep_best = true;
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  std::filesystem::remove(run.folder / "run/metrics.jsonl");
  for (const std::int64_t steps : {12, 16}) {
    run.recipe.train.steps = steps;
    ASSERT_EQ(run.train(run.checkpoint(steps - 4)), "");
    for (std::int64_t step = 8; step <= steps; step += 4)
      EXPECT_TRUE(std::filesystem::exists(run.checkpoint(step))) << step << " of " << steps;
  }
}

TEST(TrainingLoop, TheBestBeforeGoesWhereTheLastOneIsBetter) {
  Recipe recipe = recipe_of(6);
  recipe.train.keep = 1;
  recipe.train.keep_best = true;
  recipe.train.eval_every = 3;
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  const RunLog log = read_run_log(run.folder / "run");
  ASSERT_LT(log.validation.back().loss, log.validation.front().loss);
  EXPECT_EQ(list_checkpoints(run.folder / "run").size(), 1u);
}

TEST(TrainingLoop, AStepIsSkippedAtTheStartOfAPhaseAndTheNextOneIsLookedAt) {
  Recipe recipe = tiny_mxfp4_recipe(6);
  recipe.train.on_divergence = OnDivergence::skip;
  recipe.precision.phases = {{.start = 2, .rules = {{"blocks.*.mlp.*", {}, "mxfp8", "here"}}}};
  LoopRun run(recipe);
  run.disturbed.bad_norms = {3};
  ASSERT_EQ(run.train(), "");
  const std::string record = read_whole_text(run.folder / "run/precision.txt");
  EXPECT_EQ(record.find("seen in step 3\n"), std::string::npos) << record;
  EXPECT_NE(record.find("seen in step 4\n"), std::string::npos) << record;
}

TEST(TrainingLoop, ALossFarAboveGuessingIsRemarkedOnOnceAndAUsualOneIsNot) {
  const auto remarks = [](float deviation, float learning_rate) {
    Recipe recipe = recipe_of(4);
    recipe.model.init_deviation = deviation;
    recipe.optim.learning_rate = learning_rate;
    recipe.schedule.warmup_steps = 0;
    LoopRun run(recipe);
    EXPECT_EQ(run.train(), "");
    std::vector<std::int64_t> steps;
    for (const auto& turn : read_run_log(run.folder / "run").turns)
      if (turn.event == "high_loss") steps.push_back(turn.step);
    return steps;
  };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(remarks(0.02f, 1e-6f), Steps{});
  // Logits of deviation 0.25 sqrt(32) = 1.4 cost one nat; ln V is 2.7.
  EXPECT_EQ(remarks(0.25f, 1e-6f), Steps{});
  EXPECT_EQ(remarks(10, 1e-6f), Steps{1}) << "the loss";
  EXPECT_EQ(remarks(1e30f, 1e-6f), Steps{1}) << "norms of overflowing variance give 0, and the loss is ln V";
  EXPECT_EQ(remarks(0.02f, 5), Steps{2}) << "the learning rate's, after the first step";
}

}  // namespace
}  // namespace mxtape::test
