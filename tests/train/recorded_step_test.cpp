#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

/// Everything that could be recorded with the values of the first time: dropout, stochastic rounding, signs
/// per step and per call, operands from the forward, ways back through roundings, rounded gains,
/// micro-batches, learning rates that change, and a phase.
Recipe lively_recipe(std::int64_t steps) {
  Recipe r = tiny_mxfp4_recipe(steps);
  r.model = {.layers = 1, .heads = 2, .width = 16, .context = 8, .dropout = 0.1f};
  r.train.batch_size = 2;
  r.train.accumulation = 2;
  r.train.eval_windows = 2;
  r.precision.rules.push_back({"*", {"dgrad.hadamard"}, "hadamard=8 signs=step", "here"});
  r.precision.rules.push_back({"*", {"wgrad.hadamard"}, "hadamard=8 signs=call", "here"});
  r.precision.rules.push_back({"*", {"fprop.hadamard"}, "hadamard=8 signs=call", "here"});
  r.precision.rules.push_back({"*", {"*.source"}, "source=forward", "here"});
  r.precision.rules.push_back({"*", {"*.ste"}, "ste=mask", "here"});
  r.precision.rules.push_back({"*norm*", {"*.gain"}, "mxfp6 round=stochastic", "here"});
  r.precision.rules.push_back({"blocks.*.mlp.*", {"out"}, "mxfp8 round=stochastic", "here"});
  r.precision.phases.push_back({.start = 5, .rules = {{"*", {"dgrad.dy"}, "bf16", "here"}}});
  return r;
}

/// All that a step reports and leaves behind.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> parameters;
  bool operator==(const Outcome&) const = default;
};

void step(Outcome& outcome, Trainer& trainer) {
  const auto result = trainer.step();
  outcome.losses.push_back(result.loss);
  outcome.norms.push_back(double(result.norm));
}

void keep_parameters(Outcome& outcome, Backend& backend, Trainer& trainer) {
  for (const Parameter* p : trainer.model().parameters())
    outcome.parameters.push_back(download(backend, p->value));
}

/// Runs the recipe, with `between` after each step.
Outcome outcome_of(const Recipe& recipe, bool graph, const std::function<void(TinyRun&)>& between = {}) {
  TinyRun run(recipe, make_device({.graph = graph}));
  Outcome outcome;
  while (!run.trainer.finished()) {
    step(outcome, run.trainer);
    if (between) between(run);
  }
  keep_parameters(outcome, *run.backend, run.trainer);
  return outcome;
}

TEST(RecordedStep, GivesTheBitsOfStepsThatAreComputedOneCallAfterTheOther) {
  const Recipe recipe = lively_recipe(9);  // four in the second phase: one is launched
  const Outcome called = outcome_of(recipe, false), recorded = outcome_of(recipe, true);
  EXPECT_EQ(called.losses, recorded.losses);
  EXPECT_EQ(called.norms, recorded.norms);
  EXPECT_TRUE(called.parameters == recorded.parameters);
}

TEST(RecordedStep, StrandsGiveTheBitsOfStrandsThatAreComputedOneCallAfterTheOther) {
  Recipe recipe = lively_recipe(9);
  recipe.train.strands = 3;
  const Outcome called = outcome_of(recipe, false), recorded = outcome_of(recipe, true);
  EXPECT_TRUE(called == recorded);
}

TEST(RecordedStep, ValidationsAndCheckpointsInBetweenChangeNothing) {
  const Recipe recipe = lively_recipe(4);
  const TemporaryFolder folder;
  const Outcome undisturbed = outcome_of(recipe, true);
  const Outcome disturbed = outcome_of(recipe, true, [&](TinyRun& run) {
    run.trainer.validate();
    run.trainer.save(folder / std::to_string(run.trainer.steps_done()));
  });
  EXPECT_TRUE(undisturbed == disturbed);
}

TEST(RecordedStep, TwoTrainersOnOneDeviceDoNotMixTheirRecordings) {
  Recipe first = lively_recipe(4), second = first;
  second.seed = first.seed + 1;
  const Outcome expected[] = {outcome_of(first, true), outcome_of(second, true)};
  const auto backend = make_device();
  const TokenFile data = tiny_data();
  Trainer trainers[] = {{*backend, first, data}, {*backend, second, data}};
  Outcome got[2];
  for (int i = 0; i < 4; ++i)
    for (int t = 0; t < 2; ++t) step(got[t], trainers[t]);
  for (int t = 0; t < 2; ++t) {
    keep_parameters(got[t], *backend, trainers[t]);
    EXPECT_TRUE(got[t] == expected[t]) << t;
  }
}

TEST(RecordedStep, ALossThatIsNotFiniteEndsARecordedRunAsAnyOther) {
  Recipe recipe = lively_recipe(20);
  TinyRun run(recipe, make_device());
  run.run(4);  // three were called, one was launched
  Parameter& gain = *run.trainer.model().parameters().back();
  run.backend->fill(gain.value, std::numeric_limits<float>::infinity());
  try {
    run.trainer.step();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::diverged);
    EXPECT_NE(std::string(e.what()).find("first seen in"), std::string::npos) << e.what();
  }
}

// The gain makes every kernel's result finite but not the norm, so that the search for the cause goes to the
// end.
TEST(RecordedStep, AStepAfterOneThatDivergedIsAsIfThatHadNotBeen) {
  Recipe recipe = tiny_mxfp4_recipe(20);
  recipe.model = {.layers = 1, .heads = 2, .width = 32, .context = 8};
  recipe.train.batch_size = 2;
  recipe.train.accumulation = 1;
  Outcome undisturbed, disturbed;
  for (Outcome* outcome : {&undisturbed, &disturbed}) {
    TinyRun run(recipe, make_device());
    run.run(5);
    if (outcome == &disturbed) {
      Parameter& gain = *run.trainer.model().parameters().back();
      const std::vector<float> kept = download(*run.backend, gain.value);
      run.backend->fill(gain.value, 1e38f);
      EXPECT_THROW(run.trainer.step(), Error);
      run.backend->upload(gain.value, kept.data());
    }
    for (int i = 0; i < 3; ++i) step(*outcome, run.trainer);
    keep_parameters(*outcome, *run.backend, run.trainer);
  }
  EXPECT_TRUE(undisturbed == disturbed);
}

}  // namespace
}  // namespace mxtape::test
