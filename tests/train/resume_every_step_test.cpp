// A run that stops after any of its steps goes on to the same losses, weights and moments, whatever its
// formats.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/files/atomic_file.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

struct Formats {
  const char *name, *weights, *activations, *gradients;
};

/// One of each family of scales and elements, and two that mix widths.
constexpr Formats families[] = {
    {"bf16", "bf16", "bf16", "bf16"},
    {"mxfp8", "mxfp8_e4m3", "mxfp8_e4m3", "mxfp8_e5m2"},
    {"mxfp6_e3m2", "mxfp6_e3m2", "mxfp6_e3m2", "mxfp6_e3m2 round=stochastic"},
    {"mxfp6_e2m3", "mxfp6_e2m3", "mxfp6_e2m3", "mxfp6_e2m3 round=stochastic"},
    {"mxfp4", "mxfp4 round=stochastic", "mxfp4", "mxfp4 round=stochastic"},
    {"mxint8", "mxint8", "mxint8", "mxint8 round=stochastic"},
    {"nvfp4", "nvfp4", "nvfp4", "nvfp4 round=stochastic"},
    {"e3m0", "e3m0 block=32 scale=e8m0", "e3m0 block=32 scale=e8m0",
     "e3m0 block=32 scale=e8m0 round=stochastic"},
    {"int4", "int4 block=32 scale=e8m0", "int4 block=32 scale=e8m0",
     "int4 block=32 scale=e8m0 round=stochastic"},
    {"6 and 4 bits", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4 round=stochastic"},
};
constexpr std::int64_t steps = 40;

Recipe recipe_of(const Formats& formats, std::int64_t accumulation) {
  Recipe r = tiny_recipe(steps);
  r.model.layers = 1;
  r.model.context = 8;
  r.model.dropout = 0.1f;
  r.train.batch_size = 1;
  r.train.accumulation = accumulation;
  r.precision.weights = formats.weights;
  r.precision.activations = formats.activations;
  r.precision.gradients = formats.gradients;
  return r;
}

class ResumeEveryStep : public testing::TestWithParam<std::tuple<Formats, std::int64_t>> {};

TEST_P(ResumeEveryStep, LeavesLossesWeightsAndMomentsBitForBit) {
  const auto& [formats, accumulation] = GetParam();
  const TemporaryFolder folder;
  const Recipe recipe = recipe_of(formats, accumulation);
  const auto file = [&](std::int64_t step) { return folder / fmt::format("{}.h5", step); };
  std::vector<double> losses;
  TinyRun whole(recipe);
  for (std::int64_t step = 0; step < steps; ++step) {
    whole.trainer.save(file(step));
    losses.push_back(whole.trainer.step().loss);
  }
  whole.trainer.save(file(steps));
  const auto want = read_whole(file(steps));
  ASSERT_NE(losses.front(), losses.back());
  for (std::int64_t stop = 1; stop < steps; ++stop) {
    Trainer resumed(*whole.backend, recipe, whole.data);
    resumed.load(CheckpointFile(file(stop)));
    for (std::int64_t step = stop; step < steps; ++step)
      ASSERT_EQ(resumed.step().loss, losses[std::size_t(step)])
          << "stopped at " << stop << ", step " << step + 1;
    resumed.save(folder / "resumed.h5");
    ASSERT_TRUE(read_whole(folder / "resumed.h5") == want) << "stopped at " << stop;
    std::filesystem::remove(folder / "resumed.h5");
  }
  fmt::print("stopped after each of {} steps\n", steps - 1);
}

INSTANTIATE_TEST_SUITE_P(Formats, ResumeEveryStep,
                         testing::Combine(testing::ValuesIn(families), testing::Values(1, 3)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param).name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return fmt::format("{}_accumulation_{}", name, std::get<1>(info.param));
                         });

}  // namespace
}  // namespace mxtape::test
