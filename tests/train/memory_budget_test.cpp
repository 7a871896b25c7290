#include "train/memory/memory_budget.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

Recipe recipe_on_cuda() {
  Recipe r = tiny_recipe(5);
  r.model = {.vocabulary = 50, .layers = 2, .heads = 2, .width = 64, .context = 64};
  r.train.batch_size = 12;
  r.train.accumulation = 2;
  r.compute.device = "cuda";
  return r;
}

Recipe with_batches(Recipe r, std::int64_t batch_size, std::int64_t accumulation) {
  r.train.batch_size = batch_size;
  r.train.accumulation = accumulation;
  return r;
}

std::string error_of(const Recipe& r, const MemoryBudget& budget) {
  try {
    require_memory(r, memory_plan(r), budget);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    return e.what();
  }
  return "";
}

TEST(MemoryBudget, ARunThatFitsToTheByteIsTakenAndOneByteLessIsRefused) {
  const Recipe r = recipe_on_cuda();
  MemoryBudget budget{.capacity = 0, .workspace = 1000, .tokens = 24};
  budget.capacity = budget.needed(memory_plan(r));
  EXPECT_EQ(budget.capacity, memory_plan(r).peak + 1024);
  EXPECT_EQ(error_of(r, budget), "");
  --budget.capacity;
  EXPECT_NE(error_of(r, budget), "");
}

TEST(MemoryBudget, TheRemedyIsTheLargestMicroBatchThatFitsInTheSameStep) {
  const Recipe r = recipe_on_cuda();  // 24 sequences: 8 at a time is the next that divides them, then 6
  const MemoryBudget budget{.capacity = memory_plan(with_batches(r, 6, 4)).peak, .workspace = 0, .tokens = 0};
  ASSERT_FALSE(budget.holds(memory_plan(with_batches(r, 8, 3)))) << "else the test would test nothing";
  const std::string message = error_of(r, budget);
  EXPECT_NE(message.find("--train.batch_size=6 --train.accumulation=4, the same step"), std::string::npos)
      << message;
}

TEST(MemoryBudget, AShorterContextIsNamedOnlyIfItFits) {
  const Recipe r = recipe_on_cuda();
  Recipe shorter = r;
  shorter.model.context = 16;
  const MemoryBudget some{.capacity = memory_plan(shorter).peak, .workspace = 0, .tokens = 0};
  EXPECT_NE(error_of(r, some).find("--model.context=16"), std::string::npos) << error_of(r, some);
  const MemoryBudget none{.capacity = memory_plan(r).moments, .workspace = 0, .tokens = 0};
  EXPECT_NE(error_of(r, none).find("lower model.layers or model.width"), std::string::npos);
}

TEST(MemoryBudget, ARunThatOnlyTheScratchOfCudnnsAttentionMakesTooLargeIsRefused) {
  Recipe r = recipe_on_cuda();
  r.model.context = 512;
  r.compute.activations = ActivationType::bf16;
  const MemoryBudget budget{.capacity = memory_plan(r).peak, .workspace = 0, .tokens = 0};
  EXPECT_EQ(error_of(r, budget), "");
  r.compute.attention = AttentionKernels::cudnn;
  EXPECT_NE(error_of(r, budget).find("the run needs about"), std::string::npos);
}

TEST(MemoryBudget, OtherWaysToComputeTheSameAreNamedIfTheyFit) {
  Recipe r = recipe_on_cuda();
  r.compute.activations = ActivationType::bf16;
  r.compute.attention = AttentionKernels::cudnn;
  const char* const recompute = "--compute.recompute=norm+gelu";
  const char* const attention = "--compute.attention=own";
  Recipe smaller = r;
  smaller.compute.recompute = Recompute::norm_and_gelu;
  const MemoryBudget some{.capacity = memory_plan(smaller).peak, .workspace = 0, .tokens = 0};
  EXPECT_NE(error_of(r, some).find(recompute), std::string::npos) << error_of(r, some);
  EXPECT_EQ(error_of(smaller, some), "") << "what was named fits";
  Recipe own = r;
  own.compute.attention = AttentionKernels::own;
  const MemoryBudget other{.capacity = memory_plan(own).peak, .workspace = 0, .tokens = 0};
  EXPECT_NE(error_of(r, other).find(attention), std::string::npos) << error_of(r, other);
}

TEST(MemoryBudget, PackedCopiesAreNamedIfTheyFit) {
  Recipe r = recipe_on_cuda();
  r.precision.weights = r.precision.activations = r.precision.gradients = "mxfp4";
  Recipe packed = r;
  packed.compute.saved = Saved::packed;
  const MemoryBudget some{.capacity = memory_plan(packed).peak, .workspace = 0, .tokens = 0};
  const char* const saved = "--compute.saved=packed";
  EXPECT_NE(error_of(r, some).find(saved), std::string::npos) << error_of(r, some);
  EXPECT_EQ(error_of(packed, some), "") << "what was named fits";
  r.compute.device = packed.compute.device = "cpu";
  const MemoryPlan plan = memory_plan(packed);
  MemoryBudget host{.capacity = 0, .workspace = 0, .tokens = 0, .host = true};
  host.capacity = host.needed(plan);
  EXPECT_NE(error_of(r, host).find(saved), std::string::npos) << error_of(r, host);
  EXPECT_EQ(error_of(packed, host), "") << "what was named fits";
}

TEST(MemoryBudget, OnTheCpuTheTokensAreInTheSameMemory) {
  const TokenFile data = tiny_data();
  const auto backend = make_backend("cpu");
  Recipe r = recipe_on_cuda();
  EXPECT_EQ(MemoryBudget::of(r, *backend, data).tokens, 0);
  r.compute.device = "cpu";
  EXPECT_EQ(MemoryBudget::of(r, *backend, data).tokens, 2 * (data.train.count() + data.validation.count()));
}

TEST(MemoryBudget, ACheckpointIsBuiltTwiceInTheHostsMemoryAndWithoutGradients) {
  const auto backend = make_backend("cpu");
  Recipe r = recipe_on_cuda();
  const MemoryBudget gpu = MemoryBudget::of(r, *backend, tiny_data());
  EXPECT_EQ(gpu.saving(memory_plan(r)), 0) << "a device's memory is not where the image is";
  r.compute.device = "cpu";
  const MemoryBudget cpu = MemoryBudget::of(r, *backend, tiny_data());
  EXPECT_EQ(cpu.saving(memory_plan(r)), 0) << "the step's activations, gone by then, took more";
  r = with_batches(r, 1, 1);
  r.model.context = 16;
  const MemoryPlan plan = memory_plan(r);
  ASSERT_GT(plan.save_peak(), plan.peak) << "else the test would test nothing";
  EXPECT_EQ(plan.save_peak(), 3 * plan.checkpoint() + plan.weight_copies);
  EXPECT_EQ(cpu.needed(plan), plan.save_peak() + cpu.tokens + cpu.workspace);
  EXPECT_NE(memory_text(plan, cpu).find(", saving "), std::string::npos) << memory_text(plan, cpu);
  MemoryPlan measured = plan;
  measured.telemetry = cpu.saving(plan) + 100;
  EXPECT_EQ(cpu.needed(measured), cpu.needed(plan) + 100) << "a step is not measured while one is saved";
  EXPECT_EQ(gpu.needed(measured), gpu.needed(plan)) << "the host's memory is not the device's";
}

TEST(MemoryBudget, ARecordedStepKeepsItsMemoryDuringValidation) {
  Recipe r = recipe_on_cuda();
  r.model.vocabulary = 5000;
  const MemoryPlan recorded = memory_plan(r);
  r.compute.graph = false;
  const MemoryPlan planned = memory_plan(r);
  EXPECT_EQ(recorded.step_peak, planned.step_peak);
  EXPECT_GT(recorded.peak, planned.peak);
}

}  // namespace
}  // namespace mxtape::test
