#include "program/plan/resume.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/files/atomic_file.h"
#include "core/parallel.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::TinyRun;

std::vector<std::byte> bytes_after(TinyRun& run, const std::filesystem::path& folder, std::string_view name) {
  const auto path = folder / name;
  run.trainer.save(path);
  return read_whole(path);
}

/// Trains to the end in one go, and in two parts for every stop point; all must leave the same checkpoint.
void expect_resume_changes_nothing(const Recipe& recipe, std::initializer_list<std::int64_t> stops) {
  const TemporaryFolder folder;
  TinyRun whole(recipe);
  whole.run(recipe.train.steps);
  const auto want = bytes_after(whole, folder.path(), "whole.h5");
  for (auto stop : stops) {
    TinyRun first(recipe);
    first.run(stop);
    const auto middle = folder.path() / fmt::format("{}.h5", stop);
    first.trainer.save(middle);
    TinyRun second(recipe);
    second.trainer.load(CheckpointFile(middle));
    EXPECT_EQ(second.trainer.steps_done(), stop);
    second.run(recipe.train.steps);
    EXPECT_TRUE(bytes_after(second, folder.path(), fmt::format("from_{}.h5", stop)) == want)
        << "stopped at " << stop;
  }
}

TEST(Resume, LeavesTheSameBytesAsAnUninterruptedRunInF32) {
  expect_resume_changes_nothing(test::tiny_recipe(8), {0, 1, 4, 7, 8});
}

TEST(Resume, LeavesTheSameBytesWithStochasticMxfp4DropoutAndAccumulation) {
  expect_resume_changes_nothing(test::tiny_mxfp4_recipe(6), {1, 2, 3, 5});
}

TEST(Resume, LeavesTheSameBytesAcrossAChangeOfPrecision) {
  Recipe r = test::tiny_mxfp4_recipe(6);
  r.precision.phases = {
      {.start = 3, .rules = {{.layers = "*", .slots = {}, .format = "mxfp6_e2m3", .where = "test"}}}};
  expect_resume_changes_nothing(r, {2, 3, 4});
}

TEST(Resume, LeavesTheSameBytesWithIntegerGemms) {
  Recipe r = test::tiny_mxfp4_recipe(6);
  r.compute.gemm = GemmChoice::integer;
  expect_resume_changes_nothing(r, {1, 3, 5});
}

TEST(Resume, AutomaticGemmsAreThoseOfTheCheckpointAndNeverStayAutomatic) {
  const ComputeConfig library{.gemm = GemmChoice::library}, integer{.gemm = GemmChoice::integer};
  for (const ComputeConfig* before : {&library, &integer}) {
    ComputeConfig now{.gemm = GemmChoice::automatic};
    settle_gemm(now, before);
    EXPECT_EQ(now.gemm, before->gemm);
    for (const GemmChoice chosen : {GemmChoice::library, GemmChoice::integer}) {
      ComputeConfig forced{.gemm = chosen};
      settle_gemm(forced, before);  // a difference that check_changes() will name
      EXPECT_EQ(forced.gemm, chosen);
    }
  }
  ComputeConfig fresh{.gemm = GemmChoice::automatic}, gpu{.device = "cuda", .gemm = GemmChoice::automatic};
  settle_gemm(fresh, nullptr);
  EXPECT_EQ(fresh.gemm_kernels(), quicker_gemm_kernels("cpu"));
  EXPECT_NE(fresh.gemm, GemmChoice::automatic);
  settle_gemm(gpu, &integer);  // the CPU's GEMMs are none of a GPU's
  EXPECT_EQ(gpu.gemm, GemmChoice::library);
}

TEST(Resume, IsNotDisturbedByValidationBetweenSteps) {
  const TemporaryFolder folder;
  TinyRun quiet(test::tiny_mxfp4_recipe(4)), watched(test::tiny_mxfp4_recipe(4));
  quiet.run(4);
  while (!watched.trainer.finished()) {
    watched.trainer.validate();
    watched.trainer.step();
  }
  EXPECT_TRUE(bytes_after(quiet, folder.path(), "quiet.h5") ==
              bytes_after(watched, folder.path(), "watched.h5"));
}

TEST(Trainer, LeavesTheSameBytesOnOneTwoAndThreeThreads) {
  const TemporaryFolder folder;
  const int before = threads();
  std::vector<std::vector<std::byte>> results;
  for (int count : {1, 2, 3}) {
    set_threads(count);
    TinyRun run(test::tiny_mxfp4_recipe(4));
    run.recipe.compute.threads = count;
    run.run(4);
    results.push_back(bytes_after(run, folder.path(), fmt::format("{}.h5", count)));
  }
  set_threads(before);
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_TRUE(results[0] == results[2]);
}

TEST(Trainer, AnotherSeedLeavesOtherBytes) {
  const TemporaryFolder folder;
  Recipe other = test::tiny_recipe(2);
  other.seed = 8;
  TinyRun a(test::tiny_recipe(2)), b(other);
  a.run(2);
  b.run(2);
  EXPECT_FALSE(bytes_after(a, folder.path(), "a.h5") == bytes_after(b, folder.path(), "b.h5"));
}

TEST(Trainer, BeginsAtTheLossOfAModelThatKnowsNothing) {
  TinyRun run(test::tiny_mxfp4_recipe(2));
  EXPECT_NEAR(run.trainer.step().loss, std::log(double(run.data.tokenizer.size())), 0.3)
      << "an untrained model knows nothing: ln V, plus what logits of deviation 0.1 or so add";
}

}  // namespace
}  // namespace mxtape
