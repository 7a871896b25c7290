// A phase of precision that begins when a measured error says so.
#include <gtest/gtest.h>

#include "core/files/atomic_file.h"
#include "program/records/run_log.h"
#include "tests/program/loop_run.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

Recipe recipe_that_switches(float above) {
  Recipe recipe = tiny_mxfp4_recipe(10);
  recipe.train.save_every = 2;
  recipe.train.keep = 10;
  recipe.telemetry.every = 4;
  recipe.precision.switch_error = above;
  recipe.precision.phases = {{.start_rollback = 1, .rules = {{"blocks.*", {"*.dy"}, "bf16", "here"}}}};
  return recipe;
}

std::vector<std::string> rollbacks_of(const LoopRun& run, std::int64_t step) {
  return CheckpointFile(run.checkpoint(step)).header().recipe.train.rollbacks;
}

std::vector<double> losses_of(const LoopRun& run) {
  std::vector<double> losses;
  for (const auto& point : read_run_log(run.folder / "run").train) losses.push_back(point.loss);
  return losses;
}

TEST(Switch, BeginsAPhaseAfterTheMeasuredStepAndTakesNoneBack) {
  LoopRun run(recipe_that_switches(1e-6f)), never(recipe_that_switches(1e6f));
  ASSERT_EQ(run.train(), "");
  ASSERT_EQ(never.train(), "");
  EXPECT_TRUE(rollbacks_of(run, 2).empty());
  EXPECT_EQ(rollbacks_of(run, 4), std::vector<std::string>{"4 -> 4 same batches"});
  EXPECT_TRUE(rollbacks_of(never, 10).empty());
  const auto losses = losses_of(run), others = losses_of(never);
  ASSERT_EQ(losses.size(), 10u);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(losses[i], others[i]) << i;  // step 5 updates with other gradients
  for (std::size_t i = 5; i < 10; ++i) EXPECT_NE(losses[i], others[i]) << i;
  const std::string precision = read_whole_text(run.folder / "run/precision.txt");
  EXPECT_NE(precision.find("seen in step 5\n"), std::string::npos) << precision;
}

TEST(Switch, BeginsNoPhaseAfterTheLastStepWhoseCheckpointIsRead) {
  Recipe recipe = recipe_that_switches(1e-6f);
  recipe.telemetry.every = 10;
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  EXPECT_TRUE(rollbacks_of(run, 10).empty());
  // Of builds before, which began it.
  recipe.train.rollbacks = {"10 -> 10 same batches"};
  EXPECT_EQ(recipe_from_toml(to_toml(recipe), "old").train.rollbacks, recipe.train.rollbacks);
}

TEST(Switch, GivesTheBitsOfARunThatWasPlannedSo) {
  for (const bool another_is_left : {false, true}) {
    Recipe recipe = recipe_that_switches(1e-6f);
    if (another_is_left) {  // which nothing begins: after the first one weights' gradients have no error
      recipe.precision.phases[0].rules = {{"*", {"wgrad.*"}, "f32", "here"}};
      recipe.precision.phases.push_back(
          {.start_rollback = 2, .rules = {{"blocks.*", {"*.w"}, "bf16", "here"}}});
    }
    LoopRun run(recipe);
    ASSERT_EQ(run.train(), "");
    const Recipe after = CheckpointFile(run.checkpoint(10)).header().recipe;
    ASSERT_EQ(after.train.rollbacks.size(), 1u);
    LoopRun planned(after);
    ASSERT_EQ(planned.train(), "");
    EXPECT_EQ(read_whole(run.checkpoint(10)), read_whole(planned.checkpoint(10)));
  }
}

TEST(Switch, IsTheSameAfterAResumeFromBeforeAtAndAfterIt) {
  LoopRun run(recipe_that_switches(1e-6f));
  ASSERT_EQ(run.train(), "");
  for (const std::int64_t step : {2, 4, 6}) {
    Recipe recipe = recipe_that_switches(1e-6f);  // as the file has it; what the run has written, it finds
    recipe.train.rollbacks = rollbacks_of(run, step);
    LoopRun again(recipe);
    ASSERT_EQ(again.train(run.checkpoint(step)), "") << step;
    EXPECT_EQ(rollbacks_of(again, 10), rollbacks_of(run, 10)) << step;
    const CheckpointFile one(run.checkpoint(10)), other(again.checkpoint(10));
    for (const auto& info : one.file().datasets())
      EXPECT_EQ(one.file().read_f32(info.name), other.file().read_f32(info.name)) << info.name << step;
  }
}

TEST(Switch, IsFollowedByARollbackThatKnowsOfIt) {
  Recipe recipe = recipe_that_switches(1e-6f);
  recipe.train.on_divergence = OnDivergence::rollback;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {8};
  ASSERT_EQ(run.train(), "");
  EXPECT_EQ(rollbacks_of(run, 10), (std::vector<std::string>{"4 -> 4 same batches", "8 -> 6"}));
}

class SwitchProgram : public ProgramTest {};

TEST_F(SwitchProgram, AKillBeforeTheNextCheckpointChangesNoByteAndNoRecord) {
  Recipe recipe = recipe_that_switches(1e-6f);
  recipe.data.file = "data.h5";
  write_atomically(folder_ / "switch.toml", to_toml(recipe));
  ASSERT_EQ(run({"train", "switch.toml", "--name=a"}), 0) << output_;
  const auto end = read_whole(folder_ / "runs/a/checkpoints/step_00000010.h5");
  const auto switches = [&] {
    const std::string metrics = read_whole_text(folder_ / "runs/a/metrics.jsonl");
    int count = 0;
    for (std::size_t at = 0; (at = metrics.find("\"switch\"", at)) != metrics.npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(switches(), 1);
  for (const char* words : {"switch.toml", "runs/a/recipe.toml"}) {
    // recipe.toml knows of the switch, the checkpoint of step 2 that is left does not.
    for (int step = 4; step <= 10; step += 2)
      std::filesystem::remove(folder_ / fmt::format("runs/a/checkpoints/step_{:08}.h5", step));
    ASSERT_EQ(run({"train", words, "--name=a", "--resume=auto"}), 0) << output_;
    EXPECT_EQ(read_whole(folder_ / "runs/a/checkpoints/step_00000010.h5"), end) << words;
    EXPECT_EQ(switches(), 1) << words;
  }
}

TEST_F(SwitchProgram, WhatItMeasuresChangesNumbersOnAResume) {
  Recipe recipe = recipe_that_switches(1e-6f);
  recipe.data.file = "data.h5";
  write_atomically(folder_ / "switch.toml", to_toml(recipe));
  ASSERT_EQ(run({"train", "switch.toml", "--name=a", "--train.steps=3", "--schedule.kind=constant"}), 0)
      << output_;
  const std::vector<std::string> on{"train",
                                    "switch.toml",
                                    "--name=a",
                                    "--resume=auto",
                                    "--schedule.kind=constant",
                                    "--allow-change=train.steps"};
  auto other = on, allowed = on;
  other.push_back("--telemetry.every=5");
  EXPECT_EQ(run(other), 2) << output_;
  EXPECT_NE(output_.find("telemetry.every: 4 -> 5; allow it with --allow-change telemetry.every"),
            std::string::npos)
      << output_;
  allowed.insert(allowed.end(),
                 {"--telemetry.sample=2048", "--allow-change=telemetry.every", "--telemetry.every=5"});
  EXPECT_EQ(run(allowed), 0) << output_;
}

TEST_F(SwitchProgram, IsHeldToThePhasesThatBeginBeforeItAndAfterIt) {
  Recipe recipe = recipe_that_switches(1e-6f);
  recipe.data.file = "data.h5";
  const auto rule = [](const char* slot, const char* format) {
    return std::vector<PrecisionRule>{{.layers = "blocks.*", .slots = {slot}, .format = format}};
  };
  recipe.precision.phases = {{.start = 2, .rules = rule("wgrad.hadamard", "hadamard=16 signs=run")},
                             {.start_rollback = 1, .rules = rule("wgrad.source", "source=forward")}};
  write_atomically(folder_ / "switch.toml", to_toml(recipe));
  EXPECT_EQ(run({"check", "switch.toml", "--name=c"}), 0) << output_;
  recipe.precision.phases[1].rules = rule("wgrad.source", "source=shared");
  // Of a switch before step 2 the phase of that step is the later one.
  for (const char* after : {"hadamard=16 signs=run", "hadamard=0"}) {
    recipe.precision.phases[1].rules.push_back(rule("wgrad.hadamard", after)[0]);
    write_atomically(folder_ / "switch.toml", to_toml(recipe));
    EXPECT_EQ(run({"check", "switch.toml", "--name=c"}), 2) << output_;
    EXPECT_NE(output_.find("wgrad.source is shared, and wgrad.hadamard is 'hadamard=16"), std::string::npos);
  }
}

TEST_F(SwitchProgram, WantsAMeasurementAndAPhaseAndIsFoundInACheckpoint) {
  Recipe recipe = recipe_that_switches(1e-6f);
  recipe.data.file = "data.h5";
  write_atomically(folder_ / "switch.toml", to_toml(recipe));
  ASSERT_EQ(run({"train", "switch.toml", "--name=a"}), 0) << output_;
  ASSERT_EQ(run({"train", "switch.toml", "--name=a", "--resume=auto"}), 0) << output_;
  ASSERT_EQ(run({"train", "runs/a/recipe.toml", "--name=b"}), 0) << output_;
  ASSERT_EQ(run({"diff", "runs/a", "runs/b"}), 0) << output_;
  for (const char* without : {"--telemetry.every=0", "--telemetry.slots=[\"fprop.x\"]"}) {
    EXPECT_EQ(run({"check", "switch.toml", "--name=c", without}), 2) << output_;
    EXPECT_NE(output_.find("switch_error = 1e-06 wants telemetry.every above 0"), std::string::npos)
        << output_;
  }
  const std::string idle = "precision.switch_error can never act";
  ASSERT_EQ(run({"check", "switch.toml", "--name=c"}), 0) << output_;
  EXPECT_EQ(output_.find(idle), std::string::npos) << output_;
  ASSERT_EQ(run({"check", "switch.toml", "--name=c", "--precision.gradients=f32", "--precision.head=f32",
                 "--precision.activations=f32"}),
            0)
      << output_;
  EXPECT_NE(output_.find(idle), std::string::npos) << output_;
  recipe.precision.phases.push_back({.start_rollback = 3, .rules = recipe.precision.phases[0].rules});
  write_atomically(folder_ / "switch.toml", to_toml(recipe));
  EXPECT_EQ(run({"check", "switch.toml", "--name=c"}), 2) << output_;
  recipe.precision.phases.clear();
  write_atomically(folder_ / "switch.toml", to_toml(recipe));
  EXPECT_EQ(run({"check", "switch.toml", "--name=c"}), 2) << output_;
}

}  // namespace
}  // namespace mxtape::test
