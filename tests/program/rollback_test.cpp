// A run that goes back to a checkpoint when a step is not finite.
#include "program/plan/rollback.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "program/records/run_log.h"
#include "tests/program/loop_run.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

Recipe recipe_that_goes_back(std::int64_t steps) {
  Recipe recipe = tiny_mxfp4_recipe(steps);
  recipe.train.on_divergence = OnDivergence::rollback;
  recipe.train.eval_every = 3;
  recipe.train.save_every = 4;
  recipe.train.keep = 10;
  recipe.precision.phases = {{.start_rollback = 1, .rules = {{"blocks.*", {"*.w", "*.dy"}, "bf16", "here"}}}};
  return recipe;
}

void expect_same_tensors(const std::filesystem::path& a, const std::filesystem::path& b) {
  const CheckpointFile one(a), other(b);
  for (const auto& info : one.file().datasets())
    EXPECT_EQ(one.file().read_f32(info.name), other.file().read_f32(info.name)) << info.name;
}

TEST(Rollback, GoesOnFromTheLastCheckpointAsARunWithItsRecipeFromTheStart) {
  for (const bool skip : {true, false}) {
    Recipe recipe = recipe_that_goes_back(12);
    recipe.train.rollback_skip = skip;
    recipe.train.rollback_most = 1;
    LoopRun run(recipe);
    run.disturbed.bad_norms = {7};
    ASSERT_EQ(run.train(), "");
    const Recipe after = CheckpointFile(run.checkpoint(12)).header().recipe;
    EXPECT_EQ(after.train.rollbacks, std::vector<std::string>{skip ? "7 -> 4" : "7 -> 4 same batches"});
    LoopRun planned(after);
    ASSERT_EQ(planned.train(), "");
    expect_same_tensors(run.checkpoint(12), planned.checkpoint(12));
    // And what it goes on with differs from what it was before.
    Recipe plain = recipe;
    plain.precision.phases.clear();
    plain.train.on_divergence = OnDivergence::stop;
    LoopRun undisturbed(plain);
    ASSERT_EQ(undisturbed.train(), "");
    const RunLog log = read_run_log(run.folder / "run"), other = read_run_log(undisturbed.folder / "run");
    ASSERT_EQ(log.train.size(), 12u);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(log.train[i].loss == other.train[i].loss, i < 4) << i;
  }
}

TEST(Rollback, PassesOverTheBatchesSinceTheCheckpoint) {
  Recipe recipe = recipe_that_goes_back(10);
  recipe.precision.phases.clear();
  recipe.optim.learning_rate = 1e-30f;  // losses tell the batch and nothing else
  recipe.model.dropout = 0;
  recipe.precision = {};
  LoopRun run(recipe), whole(recipe);
  run.disturbed.bad_norms = {6};  // back to 4: step 5 gets the batch of step 7
  ASSERT_EQ(run.train(), "");
  ASSERT_EQ(whole.train(), "");
  const RunLog log = read_run_log(run.folder / "run"), unbroken = read_run_log(whole.folder / "run");
  ASSERT_EQ(log.train.size(), 10u);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(log.train[i].loss, unbroken.train[i < 4 ? i : i + 2].loss) << i;
}

TEST(Rollback, IsOnRecordAndKeepsTheStepsThatItTookBack) {
  LoopRun run(recipe_that_goes_back(9));
  run.disturbed.bad_norms = {7};
  testing::internal::CaptureStdout();
  ASSERT_EQ(run.train(), "");
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find("step 7: the gradient's norm is nan"), std::string::npos) << printed;
  EXPECT_NE(printed.find("rollback 1 of at most 2: from step 7 to "), std::string::npos) << printed;
  EXPECT_NE(printed.find("  the batches of 3 steps are passed over\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("  the precision phase of rollback 1 begins\n"), std::string::npos) << printed;
  const RunLog log = read_run_log(run.folder / "run");
  ASSERT_EQ(log.turns.size(), 1u);
  EXPECT_EQ(log.turns[0].event, "rollback");
  EXPECT_EQ(log.turns[0].step, 4);
  EXPECT_EQ(log.turns[0].from, 7);
  ASSERT_EQ(log.taken_back.size(), 1u);
  std::vector<std::int64_t> steps;
  for (const auto& point : log.taken_back[0]) steps.push_back(point.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 5, 6}));
  const std::string kept = read_whole_text(records_before_rollback(run.folder / "run", 1));
  EXPECT_NE(kept.find("\"event\":\"diverged\",\"reason\":\"step 7: the gradient's norm is nan"),
            std::string::npos)
      << kept;
  EXPECT_NE(kept.find("\"validation_loss\""), std::string::npos) << "of step 6";
  const auto lineage = nlohmann::json::parse(CheckpointFile(run.checkpoint(9)).header().lineage);
  ASSERT_EQ(lineage.size(), 1u);
  EXPECT_EQ(lineage[0]["event"], "rollback");
  EXPECT_EQ(lineage[0]["from"], 7);
  const auto file = (run.folder / "run/recipe.toml").string();
  EXPECT_EQ(recipe_from_toml(read_whole_text(file), file).train.rollbacks,
            std::vector<std::string>{"7 -> 4"});
  const std::string precision = read_whole_text(run.folder / "run/precision.txt");
  EXPECT_NE(precision.find("seen in step 5\n"), std::string::npos) << precision;
}

TEST(Rollback, OfWhatCannotBeSavedComesAtAPlannedStepWhateverElseIsAskedFor) {
  for (const int signal : {0, SIGUSR2, SIGTERM}) {
    LoopRun run(recipe_that_goes_back(9));
    run.disturbed.bad_moment_in = 2;
    run.disturbed.after_step = 2;
    if (signal) run.disturbed.disturb = [=] { std::raise(signal); };
    const std::string error = run.train();
    EXPECT_EQ(error.empty(), signal != SIGTERM) << error;
    if (signal == SIGTERM) {
      EXPECT_NE(error.find("stopped by SIGTERM after step 3; "), std::string::npos) << error;
      EXPECT_NE(error.find(run.checkpoint(0).string() + " is written"), std::string::npos) << error;
      run.disturbed.bad_moment_in = 5;  // the resume's second update
      ASSERT_EQ(run.train(run.checkpoint(0)), "");
    }
    EXPECT_EQ(CheckpointFile(run.checkpoint(9)).header().recipe.train.rollbacks,
              std::vector<std::string>{"4 -> 0"})
        << signal;
  }
}

TEST(Rollback, HasACheckpointToGoBackToFromTheFirstStepOn) {
  Recipe recipe = recipe_that_goes_back(5);
  recipe.train.save_every = 0;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {1};
  ASSERT_EQ(run.train(), "");
  EXPECT_EQ(CheckpointFile(run.checkpoint(5)).header().recipe.train.rollbacks,
            std::vector<std::string>{"1 -> 0"});
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(0)));
}

TEST(Rollback, ComesAtMostSoOftenAndThenEndsTheRun) {
  Recipe recipe = recipe_that_goes_back(9);
  recipe.train.rollback_most = 2;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {6, 9, 11};  // in steps 6, 7 and 6
  const std::string error = run.train();
  EXPECT_EQ(run.code, ExitCode::diverged);
  EXPECT_NE(error.find("step 6: the gradient's norm is nan"), std::string::npos) << error;
  EXPECT_NE(error.find("the run has gone back 2 times (train.rollback_most)"), std::string::npos) << error;
  EXPECT_NE(error.find("replay "), std::string::npos) << error;
  const RunLog log = read_run_log(run.folder / "run");
  EXPECT_EQ(std::count_if(log.turns.begin(), log.turns.end(), [](auto& t) { return t.event == "rollback"; }),
            2);
}

TEST(Rollback, RejectsADamagedCheckpointAndTakesTheOneBefore) {
  LoopRun run(recipe_that_goes_back(11));
  run.disturbed.bad_norms = {10};
  run.disturbed.after_step = 9;
  run.disturbed.disturb = [&] { std::filesystem::resize_file(run.checkpoint(8), 100); };
  ASSERT_EQ(run.train(), "");
  EXPECT_EQ(CheckpointFile(run.checkpoint(11)).header().recipe.train.rollbacks,
            std::vector<std::string>{"10 -> 4"});
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(8).string() + ".rejected"));
}

TEST(Rollback, LeadsToAPlannedCheckpointWhateverWasSavedBesides) {
  for (const std::int64_t every : {4, 0}) {
    Recipe recipe = recipe_that_goes_back(9);
    recipe.train.keep = 1;
    recipe.train.save_every = every;
    LoopRun run(recipe), undisturbed(recipe);
    run.disturbed.bad_norms = undisturbed.disturbed.bad_norms = {8};
    run.disturbed.after_step = 5;
    run.disturbed.disturb = [] { std::raise(SIGUSR2); };
    ASSERT_EQ(run.train(), "");
    ASSERT_EQ(undisturbed.train(), "");
    EXPECT_TRUE(std::filesystem::exists(run.checkpoint(6).string() + ".rejected"));
    EXPECT_EQ(read_whole(run.checkpoint(9)), read_whole(undisturbed.checkpoint(9)));
    EXPECT_EQ(CheckpointFile(run.checkpoint(9)).header().recipe.train.rollbacks,
              std::vector<std::string>{fmt::format("8 -> {}", every)});
  }
}

TEST(Rollback, PlannedCheckpointsOfABranchBeginWhereItDoes) {
  Turn branch, change, rollback;
  branch.step = 7, branch.parent = "other";
  change.step = 13;
  rollback.step = 10, rollback.rollback = 1, rollback.from = 12;
  const std::string lineage = with_turn(with_turn(with_turn("", branch), change), rollback);
  EXPECT_EQ(first_step(lineage), 13);
  EXPECT_EQ(first_step(""), 0);
  const TrainConfig train{.save_every = 50, .keep_every = 30};
  EXPECT_EQ(newest_planned(train, 13, 29), 13);
  EXPECT_EQ(newest_planned(train, 13, 30), 30);
  EXPECT_EQ(newest_planned(train, 13, 55), 50);
  EXPECT_EQ(newest_planned({.save_every = 0}, 13, 55), 13);
}

TEST(Rollback, AValidationThatDivergesLeadsBeforeTheCheckpointOfItsStep) {
  Recipe recipe = recipe_that_goes_back(12);
  recipe.train.eval_every = recipe.train.save_every;
  recipe.train.keep = 1;
  LoopRun run(recipe);
  run.disturbed.bad_table_after = 8;
  ASSERT_EQ(run.train(), "");
  EXPECT_EQ(CheckpointFile(run.checkpoint(12)).header().recipe.train.rollbacks,
            std::vector<std::string>{"8 -> 4"});
  recipe.train.on_divergence = OnDivergence::stop;
  recipe.train.keep = 2;
  recipe.precision.phases.clear();
  LoopRun stopped(recipe);
  stopped.disturbed.bad_table_after = 8;
  const std::string error = stopped.train();
  EXPECT_NE(error.find("step 8: evaluation: the loss is nan\n  the last checkpoint before it is "),
            error.npos)
      << error;
  EXPECT_NE(error.find("step_00000004.h5\n  to go on with, say, half the learning rate: "), error.npos)
      << error;
  EXPECT_NE(error.find("run@4' --name=tiny-again --optim.learning_rate="), error.npos) << error;
}

TEST(Rollback, ASignalDuringTheStepThatDivergesIsNotLost) {
  LoopRun run(recipe_that_goes_back(9));
  run.disturbed.bad_norms = {6};
  run.disturbed.after_step = 5;
  run.disturbed.disturb = [] { std::raise(SIGTERM); };
  EXPECT_NE(run.train().find("stopped by SIGTERM after step 5"), std::string::npos);
  EXPECT_EQ(run.code, ExitCode::interrupted);
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(5)));
}

/// Weights grow by about the learning rate in each step, and E4M3 without a scale ends at 448: a run that
/// diverges by itself, and does not in f32.
class RollbackProgramTest : public ProgramTest {
 protected:
  RollbackProgramTest() {
    Recipe recipe = tiny_mxfp4_recipe(40);
    recipe.data.file = "data.h5";
    recipe.schedule.warmup_steps = 0;
    recipe.optim.learning_rate = 25;
    recipe.precision.weights = "e4m3";
    recipe.train.on_divergence = OnDivergence::rollback;
    recipe.train.save_every = 5;
    recipe.train.keep = 20;
    recipe.precision.phases = {{.start_rollback = 1, .rules = {{"*", {"*.w"}, "f32", "here"}}}};
    std::string text = to_toml(recipe);
    const auto line = text.find("\nrollbacks = ");  // which nobody writes
    text.erase(line, text.find('\n', line + 1) - line);
    write_atomically(folder_ / "grows.toml", text);
  }
};

TEST_F(RollbackProgramTest, KilledAfterARollbackItGoesOnToTheSameBytes) {
  ASSERT_EQ(run({"train", "grows.toml", "--train.out=whole"}), 0) << output_;
  EXPECT_TRUE(says("rollback 1 of at most 2: from step "));
  const auto want = read_whole(folder_ / "whole/tiny/checkpoints/step_00000040.h5");
  std::int64_t killed = 0;
  for (unsigned kill = 0; kill < 6; ++kill) {
    const std::string out = fmt::format("--train.out=runs{}", kill);
    Program program(folder_.path(), {"train", "grows.toml", out});
    ASSERT_TRUE(program.printed("rollback 1 of at most 2")) << program.output();
    ::usleep(4'000 * kill);
    program.send(SIGKILL);
    killed += program.wait() == 128 + SIGKILL;
    ASSERT_EQ(run({"train", "grows.toml", out, "--resume=auto"}), 0) << output_;
    const auto folder = folder_ / fmt::format("runs{}/tiny", kill);
    EXPECT_TRUE(read_whole(folder / "checkpoints/step_00000040.h5") == want) << kill;
    EXPECT_FALSE(says("rollback 1 of at most")) << "it need not diverge again";
    const RunLog log = read_run_log(folder);
    EXPECT_EQ(
        std::count_if(log.turns.begin(), log.turns.end(), [](auto& t) { return t.event == "rollback"; }), 1);
    EXPECT_EQ(log.train.size(), 40u);
    EXPECT_EQ(RunPaths(folder).earlier_recipes().size(), 1u);
  }
  EXPECT_GT(killed, 0);
}

TEST_F(RollbackProgramTest, ResumedFromEachCheckpointItEndsWithTheSameBytes) {
  ASSERT_EQ(run({"train", "grows.toml"}), 0) << output_;
  const auto want = read_whole(checkpoint(40));
  const auto recipe = read_whole_text(folder_ / "runs/tiny/recipe.toml");
  EXPECT_TRUE(contains(recipe, "  # the run\n")) << recipe;
  for (const auto& file : list_checkpoints(folder_ / "runs/tiny")) {
    if (file == checkpoint(40)) continue;
    std::filesystem::remove(checkpoint(40));
    ASSERT_EQ(run({"train", "grows.toml", "--resume=auto"}), 0) << output_;
    EXPECT_TRUE(read_whole(checkpoint(40)) == want) << file;
    EXPECT_EQ(read_whole_text(folder_ / "runs/tiny/recipe.toml"), recipe) << file;
    for (const auto& later : list_checkpoints(folder_ / "runs/tiny"))
      if (later >= file) std::filesystem::remove(later);
  }
}

TEST_F(RollbackProgramTest, ANewRunInItsPlaceMovesItsRecordsAway) {
  ASSERT_EQ(run({"train", "grows.toml"}), 0) << output_;
  const auto folder = folder_ / "runs/tiny";
  ASSERT_TRUE(std::filesystem::exists(records_before_rollback(folder, 1)));
  ASSERT_EQ(run({"train", "tiny.toml", "--resume=no"}), 0) << output_;
  EXPECT_FALSE(std::filesystem::exists(records_before_rollback(folder, 1)));
  EXPECT_TRUE(std::filesystem::exists(records_before_rollback(folder / "before-1", 1)));
}

TEST_F(RollbackProgramTest, IsShownByInfoAndPlot) {
  ASSERT_EQ(run({"train", "grows.toml"}), 0) << output_;
  const auto from = std::int64_t(number_after("rollback 1 of at most 2: from step "));
  const std::int64_t to = from - 1 - (from - 1) % 5;
  ASSERT_EQ(run({"info", "runs/tiny"}), 0) << output_;
  EXPECT_TRUE(says(fmt::format("rollback    at step {}, from step {}\n", to, from)));
  EXPECT_TRUE(says("  the precision phase of rollback 1 begins"));
  (void)run({"plot", "runs/tiny"});  // the table comes before gnuplot, which may not be there
  EXPECT_TRUE(says(
      fmt::format("tiny: step {} or its validation was not finite; the run went back to step {}", from, to)));
}

TEST_F(RollbackProgramTest, WeightsThatCannotBeSavedAreTakenBackToo) {
  EXPECT_EQ(run({"train", "tiny.toml", "--train.on_divergence=rollback", "--train.save_every=1",
                 "--optim.learning_rate=100", "--optim.weight_decay=1e38", "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged));
  EXPECT_TRUE(says("rollback 2 of at most 2: from step 1 to runs/tiny/checkpoints/step_00000000.h5"));
  EXPECT_TRUE(says("mxtape: step 1: parameters/"));
  EXPECT_TRUE(says("and is not saved; the checkpoints before it stay\n  the run has gone back 2 times"));
  EXPECT_EQ(list_checkpoints(folder_ / "runs/tiny"), std::vector<std::filesystem::path>{checkpoint(0)});
}

TEST_F(RollbackProgramTest, CheckSaysWhatWouldComeAndRefusesWhatCannot) {
  EXPECT_EQ(run({"check", "grows.toml"}), 0) << output_;
  EXPECT_TRUE(says("rollback    to the last planned checkpoint, at most 2 times; the first step has one"));
  EXPECT_TRUE(says("from rollback 1, if it comes"));
  EXPECT_EQ(run({"check", "grows.toml", "--train.on_divergence=stop"}), int(ExitCode::usage));
  EXPECT_TRUE(
      says("a precision phase starts at rollback 1, which never comes: train.on_divergence is not rollback"));
  EXPECT_EQ(run({"check", "grows.toml", "--train.rollback_skip=false"}), int(ExitCode::usage));
  EXPECT_TRUE(says("rollback 2 of train.rollback_most = 2 would change nothing"));
  EXPECT_EQ(run({"check", "grows.toml", "--train.rollback_skip=false", "--train.rollback_most=1"}), 0)
      << output_;
  EXPECT_EQ(run({"check", "grows.toml", "--trace"}), 0) << output_;
  EXPECT_TRUE(says("2 phases"));
}

}  // namespace
}  // namespace mxtape::test
