// Telemetry in whole runs: it changes none of them, and its records go where the run goes.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "program/plan/rollback.h"
#include "tests/program/loop_run.h"
#include "tests/program/records/telemetry_records.h"

namespace mxtape::test {
namespace {

Recipe measured(Recipe recipe, std::int64_t every) {
  recipe.telemetry.every = every;
  recipe.telemetry.formats = {"nvfp4", "mxfp8"};
  return recipe;
}

std::filesystem::path telemetry_of(const LoopRun& run) { return run.folder / "run/telemetry.jsonl"; }

/// metrics.jsonl without what a clock says.
std::string losses_of(const LoopRun& run) {
  std::string all;
  for (auto record : records_of(run.folder / "run/metrics.jsonl")) {
    record.erase("ms"), record.erase("tokens_per_second");
    all += record.dump() + "\n";
  }
  return all;
}

/// The steps of a telemetry file, each once, in order of appearance.
std::vector<std::int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<std::int64_t> steps;
  for (const auto& record : records_of(file))
    if (steps.empty() || steps.back() != record["step"]) steps.push_back(record["step"]);
  return steps;
}

std::vector<std::pair<const char*, Recipe>> kinds_of_runs() {
  std::vector<std::pair<const char*, Recipe>> kinds{
      {"stochastic, three micro-batches", tiny_mxfp4_recipe(7)}};
  const Recipe plain = kinds.front().second;
  const auto kind = [&](const char* name, const auto& change) {
    Recipe recipe = plain;
    change(recipe);
    kinds.emplace_back(name, recipe);
  };
  kind("integer GEMMs", [](Recipe& r) { r.compute.gemm = GemmChoice::integer; });
  kind("bf16 activations", [](Recipe& r) { r.compute.activations = ActivationType::bf16; });
  kind("recompute", [](Recipe& r) { r.compute.recompute = Recompute::norm_and_gelu; });
  kind("packed", [](Recipe& r) { r.compute.saved = Saved::packed; });
  kind("nvfp4", [](Recipe& r) { r.precision.weights = r.precision.activations = "nvfp4"; });
  kind("rotated, backward from the forward's values", [](Recipe& r) {
    r.precision.rules = {{"blocks.*", {"*.hadamard"}, "hadamard=16 signs=step", "here"},
                         {"blocks.*", {"*.source"}, "source=forward", "here"}};
  });
  kind("masks and DGE", [](Recipe& r) {
    r.precision.rules = {{"blocks.*", {"fprop.x.ste"}, "ste=mask", "here"},
                         {"blocks.*", {"fprop.w.ste"}, "ste=dge", "here"}};
  });
  kind("a phase", [](Recipe& r) {
    r.precision.phases = {{.start = 4, .rules = {{"blocks.*", {"*.w"}, "mxfp6", "here"}}}};
  });
  kind("head and attention quantized", [](Recipe& r) { r.precision.head = r.precision.attention = "mxfp8"; });
  return kinds;
}

TEST(TelemetryRun, MeasuresPackedCopiesAsThoseThatAreReady) {
  for (const GemmChoice gemm : {GemmChoice::library, GemmChoice::integer}) {
    Recipe recipe = measured(tiny_mxfp4_recipe(3), 1);
    recipe.compute.gemm = gemm;
    LoopRun ready(recipe);
    recipe.compute.saved = Saved::packed;
    LoopRun packed(recipe);
    ASSERT_EQ(ready.train(), "");
    ASSERT_EQ(packed.train(), "");
    EXPECT_TRUE(records_of(telemetry_of(ready)) == records_of(telemetry_of(packed)));
  }
}

TEST(TelemetryRun, HasTheSameLossesAndCheckpointsAsWithoutAndEverySlotOnceInEachMeasurement) {
  for (const auto& [name, recipe] : kinds_of_runs()) {
    LoopRun with(measured(recipe, 2)), without(recipe);
    ASSERT_EQ(with.train(), "") << name;
    ASSERT_EQ(without.train(), "") << name;
    EXPECT_EQ(losses_of(with), losses_of(without)) << name;
    EXPECT_EQ(read_whole(with.checkpoint(7)), read_whole(without.checkpoint(7))) << name;
    EXPECT_FALSE(std::filesystem::exists(telemetry_of(without)));
    EXPECT_EQ(steps_in(telemetry_of(with)), (std::vector<std::int64_t>{2, 4, 6})) << name;
    std::map<std::string, int> times;
    std::set<std::string> slots;
    for (const auto& r : records_of(telemetry_of(with))) {
      ++times[fmt::format("{} {} {} {} {}", r["step"].dump(), r["kind"].dump(), r["layer"].dump(),
                          r["slot"].dump(), r.value("format", ""))];
      if (r["layer"] == "blocks.1.mlp.down") slots.insert(r["slot"]);
    }
    EXPECT_EQ(slots, std::set<std::string>(measured_slots.begin(), measured_slots.end())) << name;
    for (const auto& [place, count] : times) EXPECT_EQ(count, 1) << name << ": " << place;
  }
}

TEST(TelemetryRun, MeasuresTheFormatsOfThePhaseThatIsInForce) {
  Recipe recipe = measured(tiny_mxfp4_recipe(6), 2);
  recipe.precision.weights = "mxfp4";
  recipe.precision.phases = {{.start = 4, .rules = {{"blocks.*", {"*.w"}, "mxfp6", "here"}}}};
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  std::map<std::int64_t, std::set<std::string>> formats;
  for (const auto& r : records_of(telemetry_of(run)))
    if (r["kind"] == "operand" && r["in_use"] == true && r["slot"] == "dgrad.w" &&
        r["layer"] == "blocks.0.mlp.up")
      formats[r["step"]].insert(r["format"]);
  using Formats = std::set<std::string>;
  EXPECT_EQ(formats, (std::map<std::int64_t, Formats>{
                         {2, {"mxfp4"}}, {4, {"mxfp4"}}, {6, {to_text(parse_quantizer("mxfp6"))}}}));
}

TEST(TelemetryRun, AResumeGoesOnToTheSameFile) {
  Recipe recipe = measured(tiny_mxfp4_recipe(10), 2);
  recipe.train.save_every = 5;
  recipe.train.keep = 5;
  recipe.telemetry.window = 1;  // a longer one is cut short where a run begins
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  const std::string whole = read_whole_text(telemetry_of(run));
  ASSERT_EQ(steps_in(telemetry_of(run)), (std::vector<std::int64_t>{2, 4, 6, 8, 10}));
  std::filesystem::remove(run.checkpoint(10));
  ASSERT_EQ(run.train(run.checkpoint(5)), "");
  EXPECT_TRUE(read_whole_text(telemetry_of(run)) == whole);
}

TEST(TelemetryRun, AResumeWithoutItCutsTheRecordsOfStepsThatComeAgain) {
  Recipe recipe = measured(tiny_mxfp4_recipe(10), 2);
  recipe.train.save_every = 5;
  recipe.train.keep = 5;
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  std::filesystem::remove(run.checkpoint(10));
  run.recipe.telemetry.every = 0;
  ASSERT_EQ(run.train(run.checkpoint(5)), "");
  EXPECT_EQ(steps_in(telemetry_of(run)), (std::vector<std::int64_t>{2, 4}));
}

TEST(TelemetryRun, AWindowThatAResumeCutsSaysHowLongItWas) {
  Recipe recipe = measured(tiny_mxfp4_recipe(8), 4);
  recipe.train.save_every = 5;
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  const auto window = [&] {
    return record_of(records_of(telemetry_of(run)), 8, "weight", "blocks.0.mlp.up", "fprop.w")["window"];
  };
  EXPECT_EQ(window(), 4) << "telemetry.every is less than telemetry.window";
  std::filesystem::remove(run.checkpoint(8));
  ASSERT_EQ(run.train(run.checkpoint(5)), "");
  EXPECT_EQ(window(), 3);
}

TEST(TelemetryRun, ARollbackKeepsTheRecordsOfTheStepsThatItTookBackAside) {
  Recipe recipe = measured(tiny_mxfp4_recipe(10), 2);
  recipe.train.on_divergence = OnDivergence::rollback;
  recipe.train.save_every = 4;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {7};
  ASSERT_EQ(run.train(), "");
  EXPECT_EQ(steps_in(telemetry_of(run)), (std::vector<std::int64_t>{2, 4, 6, 8, 10}));
  const auto kept = records_before_rollback(run.folder / "run", 1, "telemetry");
  EXPECT_EQ(steps_in(kept), std::vector<std::int64_t>{6});
  EXPECT_EQ(RunPaths(run.folder / "run").kept_records().size(), 2u)
      << "they go with a run that is moved aside";
  for (const auto& r : records_of(telemetry_of(run)))
    if (r["step"] == 6) {
      EXPECT_EQ(read_whole_text(kept).find(r.dump()), std::string::npos) << "the batches differ";
    }
}

TEST(TelemetryRun, AStepThatIsSkippedHasNoRecordsAndTheNextMeasurementHas) {
  Recipe recipe = measured(tiny_mxfp4_recipe(6), 2);
  recipe.train.on_divergence = OnDivergence::skip;
  LoopRun run(recipe);
  run.disturbed.bad_norms = {4};
  ASSERT_EQ(run.train(), "");
  EXPECT_EQ(steps_in(telemetry_of(run)), (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(record_of(records_of(telemetry_of(run)), 6, "weight", "blocks.0.mlp.up", "fprop.w")["window"], 2);
}

TEST(TelemetryRun, MeasuresTheLayersAndSlotsThatTheRecipeNames) {
  Recipe recipe = measured(tiny_mxfp4_recipe(2), 2);
  recipe.telemetry.layers = "blocks.-1.mlp.*";
  recipe.telemetry.slots = {"*.x", "wgrad.dw"};
  LoopRun run(recipe);
  ASSERT_EQ(run.train(), "");
  std::set<std::string> layers, slots;
  for (const auto& r : records_of(telemetry_of(run))) layers.insert(r["layer"]), slots.insert(r["slot"]);
  EXPECT_EQ(layers, (std::set<std::string>{"blocks.1.mlp.down", "blocks.1.mlp.up"}));
  EXPECT_EQ(slots, (std::set<std::string>{"fprop.x", "wgrad.dw", "wgrad.x"}));
}

}  // namespace
}  // namespace mxtape::test
