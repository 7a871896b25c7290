#include "train/memory/memory_plan.h"

#include <gtest/gtest.h>

#include "kernels/observers/dry_backend.h"
#include "recipes/shipped.h"
#include "recipes/text/precision_table.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

/// Large enough that a step's tensors outweigh the 256-byte granules of the pool.
Recipe small_recipe(const std::string& precision) {
  const std::string text =
      "extends = \"precision/" + precision +
      "\"\nname = \"small\"\nmodel = {layers = 2, heads = 2, width = 64, context = 64}\n" +
      "train = {steps = 10, batch_size = 4, accumulation = 2, eval_windows = 8}\nschedule.warmup_steps = 2\n";
  return recipe_from_toml(text, "small");
}

void expect_planned_peak(GemmChoice gemm) {
  // "bf16+": kept in bf16, which a CPU widens; tetrajet2025 rounds again what is in bf16.
  for (const char* precision :
       {"bf16", "bf16+", "mxfp8", "mxfp4", "mxfp4+", "nvfp4", "quartet2025", "tseng2025", "tetrajet2025"}) {
    const std::string_view shown = precision;
    Recipe recipe = small_recipe(std::string(shown.substr(0, shown.find('+'))));
    recipe.compute.gemm = gemm;
    if (shown.ends_with('+')) recipe.compute.activations = ActivationType::bf16;
    TinyRun run(recipe);
    const MemoryPlan plan = memory_plan(run.trainer.recipe());
    run.run(3);
    run.trainer.validate();
    const std::int64_t peak = run.backend->peak_bytes();
    // Rotated tensors are planned whole, as GPUs need them. The CPU rotates in the cache: its peak may lack
    // the widest, of the MLP; and where a mask is rotated back, the gradient, the input and what the mask
    // leaves.
    const auto& model = run.trainer.recipe().model;
    const std::int64_t widest = 4 * run.trainer.recipe().train.batch_size * model.context * 4 * model.width;
    const std::string_view name = precision;
    const int rotated = name == "quartet2025" ? 3 : name == "tseng2025" ? 1 : 0;
    EXPECT_GE(peak, plan.peak - rotated * widest) << precision;
    EXPECT_LE(double(peak), 1.01 * double(plan.peak)) << precision;
  }
}

TEST(MemoryPlan, TheCpuBackendNeedsThePlannedTensorsAndAtMostAHundredthMoreForItsScratch) {
  expect_planned_peak(GemmChoice::library);
}
TEST(MemoryPlan, WithIntegerGemmsTheCpuBackendNeedsThePlannedTensorsToo) {
  expect_planned_peak(GemmChoice::integer);
}

// 487 of 655 MiB, measured; docs/dev/memory.md says where they are.
TEST(MemoryPlan, ByDefaultMxfp4InCodesTakesAtMostThreeQuartersOfBf16) {
  const auto peak = [](const char* name) {
    Recipe r = read_recipe(name, {"compute.gemm=integer"});
    r.model.vocabulary = 65;
    return double(memory_plan(r).peak);
  };
  EXPECT_LE(peak("shakespeare-6x384-mxfp4"), 0.75 * peak("shakespeare-6x384-bf16"));
}

TEST(MemoryPlan, StateIsCountedByParameters) {
  Recipe r = small_recipe("bf16");
  r.model.vocabulary = 100;
  const MemoryPlan plan = memory_plan(r);
  const std::int64_t bytes = 4 * parameter_count(r.model);
  EXPECT_EQ(plan.weights, bytes);
  EXPECT_EQ(plan.gradients, bytes);
  EXPECT_EQ(plan.moments, 2 * bytes);
  EXPECT_EQ(plan.checkpoint(), 3 * bytes);
  // One bf16 copy serves both axes: 12 C^2 in each block and the head's V C.
  EXPECT_EQ(plan.weight_copies, 2 * (2 * 12 * 64 * 64 + 100 * 64));
}

TEST(MemoryPlan, MicroBatchesAddWorkButNoMemory) {
  Recipe r = small_recipe("mxfp4");
  r.model.vocabulary = 100;
  const MemoryPlan two = memory_plan(r);
  r.train.accumulation = 6;
  const MemoryPlan six = memory_plan(r);
  EXPECT_EQ(two.peak, six.peak);
  const auto work = [](const MemoryPlan& plan) { return plan.bf16_flops + plan.integer_ops; };
  EXPECT_DOUBLE_EQ(3 * work(two), work(six));
  // 6 flops for each weight of a linear layer and each token (three GEMMs of 2).
  const double weights = 2 * 12 * 64 * 64 + 100 * 64;
  EXPECT_DOUBLE_EQ(work(two), 6 * weights * 2 * 4 * 64);
}

TEST(MemoryPlan, ValidationTakesTheWindowsThatAutoGivesTheWholeStep) {
  Recipe r = test::tiny_recipe(1);
  r.model.vocabulary = 20;
  r.schedule.warmup_steps = 0;
  r.train.batch_size = 1;
  r.train.accumulation = 400;
  const auto peak = [&](std::int64_t windows) {
    r.train.eval_windows = windows;
    return memory_plan(r).peak;
  };
  EXPECT_EQ(peak(auto_windows), peak(400 * 3 / 5));
  EXPECT_GT(peak(auto_windows), peak(2 * 3 / 5)) << "more than the two micro-batches that are planned give";
}

TEST(MemoryPlan, APhaseThatNeedsMoreIsSeen) {
  Recipe r = small_recipe("mxfp4");
  r.model.vocabulary = 100;
  const MemoryPlan quantized = memory_plan(r);
  r.precision.phases.push_back({.start = 5, .rules = {{"*", {"*.x"}, "f32", "here"}}});
  EXPECT_GT(memory_plan(r).step_peak,
            quantized.step_peak);  // f32 operands: activations are kept in twice the bytes
}

TEST(MemoryPlan, WhatTelemetryTakesIsCounted) {
  Recipe r = small_recipe("mxfp4");
  r.model.vocabulary = 100;
  const MemoryPlan without = memory_plan(r);
  EXPECT_EQ(without.telemetry, 0);
  r.telemetry.every = 10;
  const MemoryPlan with = memory_plan(r);
  // At least the MLP's hidden activations in f32, which are downloaded whole.
  const std::int64_t hidden = 4 * r.train.batch_size * r.model.context * 4 * r.model.width;
  EXPECT_GE(with.telemetry, hidden);
  EXPECT_EQ(with.step_peak, without.step_peak)
      << "on a CPU a step that is measured keeps what any step keeps";
  EXPECT_EQ(with.bf16_flops, without.bf16_flops);
  r.telemetry.layers = "blocks.0.attn.out";
  EXPECT_LT(memory_plan(r).telemetry, with.telemetry);

  r.compute.device = "cuda";
  r.telemetry.every = 0;
  const std::int64_t recorded = memory_plan(r).step_peak;
  r.telemetry.every = 10;
  EXPECT_GT(memory_plan(r).step_peak, recorded) << "a measured step's tensors lie beside the recorded step's";
}

TEST(MemoryPlan, TheScratchOfCudnnsAttentionIsCounted) {
  Recipe r = small_recipe("bf16");
  r.model.vocabulary = 100;
  r.model.context = 1024;
  r.compute.device = "cuda";
  r.compute.activations = ActivationType::bf16;
  const MemoryPlan own = memory_plan(r);
  r.compute.attention = AttentionKernels::cudnn;
  const MemoryPlan cudnn = memory_plan(r);
  // Four sequences of two heads; the most that can be used otherwise while attention runs is the step's peak.
  const std::int64_t scratch = 2 * 4 * 2 * 1024 * 1024;
  EXPECT_GT(cudnn.step_peak, scratch + own.state());
  EXPECT_GT(cudnn.step_peak, own.step_peak);
  EXPECT_LE(cudnn.step_peak, own.step_peak + scratch + 256);
}

TEST(MemoryPlan, EveryShippedRecipeRunsTheGemmsThatItsPrecisionTableStates) {
  for (const auto& shipped : shipped_recipes()) {
    Recipe r = read_recipe(std::string(shipped.name), {"train.accumulation=1", "model.vocabulary=300"});
    DryBackend device;
    TokenFile data = tiny_data();
    data.train.narrow.resize(std::size_t(r.model.context) + 1);
    Trainer(device, r, data).step();
    std::int64_t bf16 = 0, f32 = 0;
    for (const auto& [name, q] : precision_plan(r, 0).linear)
      for (const auto& [a, b] :
           {std::pair{q.fprop_x, q.fprop_w}, {q.dgrad_dy, q.dgrad_w}, {q.wgrad_dy, q.wgrad_x}})
        ++(gemm_path(a, b, GemmKernels::library) == "bf16 GEMM, exact products" ? bf16 : f32);
    EXPECT_EQ(device.bf16_gemms().calls, bf16) << shipped.name;
    EXPECT_EQ(device.f32_gemms().calls, f32) << shipped.name;
  }
}

}  // namespace
}  // namespace mxtape::test
