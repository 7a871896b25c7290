#include "program/run/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program/program_fixture.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

Recipe small_recipe() {
  Recipe r = test::tiny_mxfp4_recipe(10);
  r.model.vocabulary = 20;
  return r;
}

TEST(Profile, CountsTheOperationsThatThePlanCounts) {
  for (const GemmChoice choice : {GemmChoice::library, GemmChoice::integer}) {
    Recipe recipe = small_recipe();
    recipe.compute.gemm = choice;
    const Profile p = profile(RunPlan(recipe), 2);
    Timing::Work gemms;
    for (const auto& [place, work] : p.work)
      if (place.kernel == "gemm") gemms += work;
    const MemoryPlan plan = memory_plan(p.recipe);
    EXPECT_DOUBLE_EQ(gemms.bf16_flops / 2, plan.bf16_flops);
    EXPECT_DOUBLE_EQ(gemms.f32_flops / 2, plan.f32_flops);
    EXPECT_DOUBLE_EQ(gemms.integer_ops / 2, plan.integer_ops);
    EXPECT_EQ(plan.integer_ops > 0, choice == GemmChoice::integer);
    EXPECT_EQ(plan.bf16_flops > 0, choice == GemmChoice::library);
    EXPECT_EQ(p.peaks.integer_ops > 0, choice == GemmChoice::integer);
  }
}

TEST(Profile, PutsCallsIntoTheirLayerSlotAndPass) {
  const Recipe recipe = small_recipe();
  const Profile p = profile(RunPlan(recipe), 3);
  const auto work = [&](const char* layer, bool backward, const char* kernel, const char* slot) {
    const auto found = p.work.find({layer, backward, kernel, slot});
    return found == p.work.end() ? Timing::Work{} : found->second;
  };
  const std::int64_t passes = 3 * recipe.train.accumulation,
                     rows = recipe.train.batch_size * recipe.model.context;
  for (const auto& [backward, slot] :
       {std::pair{false, "fprop"}, std::pair{true, "dgrad"}, std::pair{true, "wgrad"}}) {
    const auto gemm = work("blocks.1.mlp.up", backward, "gemm", slot);
    EXPECT_EQ(gemm.calls, passes) << slot;
    EXPECT_EQ(gemm.bf16_flops, double(passes) * 2 * double(rows) * 32 * 128) << slot;
  }
  // Y [rows, 128] in f32, X [rows, 32] and W [128, 32] in bf16, and the bias.
  EXPECT_EQ(
      work("blocks.1.mlp.up", false, "gemm", "fprop").bytes,
      double(passes) * (4.0 * double(rows) * 128 + 2.0 * double(rows) * 32 + 2.0 * 128 * 32 + 4.0 * 128));
  EXPECT_EQ(work("blocks.1.mlp.up", false, "quantize", "x").calls, passes);
  EXPECT_EQ(work("blocks.1.mlp.up", true, "quantize", "dy").calls, passes);
  EXPECT_EQ(work("", false, "clip_factor", "").calls, 3);
}

TEST(Profile, RowsAddUpToTheSameTimeHoweverTheyAreGrouped) {
  const Profile p = profile(RunPlan(small_recipe()), 2);
  const auto total = [&](ProfileBy by) {
    double sum = 0, before = INFINITY;
    for (const auto& row : p.rows(by)) {
      EXPECT_LE(row.work.seconds, before);  // the most time first
      sum += before = row.work.seconds;
    }
    return sum;
  };
  const double calls = total(ProfileBy::call);
  EXPECT_NEAR(total(ProfileBy::kernel), calls, 1e-9 * calls);
  EXPECT_NEAR(total(ProfileBy::layer), calls, 1e-9 * calls);
}

TEST(Profile, FoldedStacksAreFramesAndWholeMicroseconds) {
  std::istringstream lines(folded_stacks(profile(RunPlan(small_recipe()), 1)));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto blank = line.rfind(' ');
    ASSERT_NE(blank, std::string::npos) << line;
    EXPECT_EQ(std::count(line.begin(), line.begin() + std::ptrdiff_t(blank), ';'), 2) << line;
    EXPECT_EQ(line.find_first_not_of("0123456789", blank + 1), std::string::npos) << line;
  }
  EXPECT_GT(count, 20);
}

TEST(Profile, WantsDataOrAVocabulary) {
  Recipe r = test::tiny_recipe(10);
  try {
    profile(RunPlan(r), 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(e.what(), "data.file '' is not there, and model.vocabulary is 0; set one of the two");
  }
}

class ProfileCommand : public test::ProgramTest {};

TEST_F(ProfileCommand, PrintsATableOrJsonAndWritesAFlameFile) {
  ASSERT_EQ(run({"profile", "tiny.toml", "--steps", "2", "--flame", "step.folded"}), 0) << output_;
  for (const char* text : {"data      data.h5", "gemm fprop", "quantize dy, backward", "between calls"})
    EXPECT_TRUE(says(text));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step.folded"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  ASSERT_EQ(run({"profile", "tiny.toml", "--steps=1", "--by=layer", "--device=cpu", "--json"}), 0) << output_;
  const auto json = nlohmann::json::parse(output_);
  EXPECT_EQ(json["data"], "data.h5");
  EXPECT_GT(json["peaks"]["bf16_flops"], 0);
  EXPECT_EQ(run({"profile", "tiny.toml", "--data.file=gone.h5"}), int(ExitCode::usage));
  EXPECT_TRUE(says("data.file 'gone.h5' is not there, and model.vocabulary is 0"));
  EXPECT_EQ(run({"profile", "tiny.toml", "--data.file=gone.h5", "--model.vocabulary=60"}), 2);
  EXPECT_TRUE(says("data.file 'gone.h5' is not there; leave it out to profile with random tokens"));
}

TEST(Timing, CountsAttentionByItsOperands) {
  const auto flops = [](const std::string& attention, ActivationType activations) {
    Recipe r = small_recipe();
    r.precision.attention = attention;
    r.compute.activations = activations;
    Timing::Work sum;
    for (const auto& [place, work] : profile(RunPlan(r), 1).work)
      if (place.kernel.starts_with("attention")) sum += work;
    return std::pair(sum.bf16_flops, sum.f32_flops);
  };
  const Recipe r = small_recipe();
  // Seven products of half a square [T, T] x D, for each head, sequence, layer and micro-batch.
  const double all = 7.0 * 16 * 16 * 16 * double(r.model.heads * r.train.batch_size * r.model.layers) *
                     double(r.train.accumulation);
  EXPECT_EQ(flops("f32", ActivationType::f32), std::pair(0.0, all));
  EXPECT_EQ(flops("f32", ActivationType::bf16), std::pair(all, 0.0));
  EXPECT_EQ(flops("mxfp4", ActivationType::f32), std::pair(all, 0.0));
}

TEST(Timing, ChangesNoNumber) {
  test::TinyRun plain(test::tiny_mxfp4_recipe(3));
  test::TinyRun inner(test::tiny_mxfp4_recipe(3));
  Timing timing;
  ObservingBackend watched(*inner.backend, {&timing});
  Trainer trainer(watched, inner.recipe, inner.data);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trainer.step().loss, plain.trainer.step().loss);
}

}  // namespace
}  // namespace mxtape
