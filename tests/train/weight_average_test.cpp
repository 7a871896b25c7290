// Weights that a moving average rounds (Q-EMA): in memory, in checkpoints, on several devices.
#include <gtest/gtest.h>

#include "core/files/atomic_file.h"
#include "formats/quantize.h"
#include "tests/support/tensors.h"
#include "tests/train/devices/shared_run.h"

namespace mxtape::test {
namespace {

constexpr float decay = 0.9f;

Recipe with_averages(Recipe r) {
  r.precision.weights = "mxfp4 rule=rceil ema";
  r.precision.weight_average = decay;
  // TetraJet's: dgrad's weight is the forward's, rounded again.
  r.precision.rules.push_back({"blocks.*", {"dgrad.w"}, "mxfp4 rule=rceil round=stochastic", "here"});
  r.precision.rules.push_back({"blocks.*", {"dgrad.source", "wgrad.source"}, "source=forward", "here"});
  return r;
}
Recipe shared_with_averages(std::int64_t steps) {
  Recipe r = with_averages(shared_recipe(steps, 4, 1));
  r.optim.learning_rate = 0.03f;  // so that weights cross from value to value
  return r;
}

TEST(WeightAverage, FollowsEachStepAndRoundsTheForwardsWeights) {
  TinyRun run(with_averages(tiny_recipe(8)));
  std::vector<std::vector<float>> want;
  for (const Parameter* p : run.trainer.model().parameters()) {
    ASSERT_EQ(bool(p->average), p->decay) << p->name;
    want.push_back(download(*run.backend, p->value));
    if (p->average) {
      EXPECT_EQ(download(*run.backend, p->average), want.back()) << p->name;
    }
  }
  int copies = 0, by_average = 0;
  for (int step = 0; step < 8; ++step) {
    run.trainer.step();
    std::size_t i = 0;
    for (const Parameter* p : run.trainer.model().parameters()) {
      auto& average = want[i++];
      if (!p->average) continue;
      const auto value = download(*run.backend, p->value);
      for (std::size_t k = 0; k < value.size(); ++k) average[k] = average[k] * decay + value[k] * (1 - decay);
      ASSERT_EQ(download(*run.backend, p->average), average) << p->name << " after step " << step + 1;
      const Rounded& copy = p->copies.fprop;
      if (!copy || !copy.by.quantizer.ema) continue;
      std::vector<std::uint32_t> bits;
      for (const float a : average) bits.push_back(bits_of(a));
      std::vector<float> y(value.size()), nearest(value.size());
      quantize_with_draws(y.data(), value.data(), p->value.rows(), p->value.cols(), Axis::row,
                          copy.by.quantizer, bits);
      ASSERT_EQ(download(*run.backend, copy.elements), y) << p->name << " after step " << step + 1;
      quantize_reference(nearest.data(), value.data(), p->value.rows(), p->value.cols(), Axis::row,
                         copy.by.quantizer, {});
      ++copies, by_average += y != nearest;
    }
  }
  EXPECT_EQ(copies, 8 * 8);
  EXPECT_GT(by_average, copies / 2);
}

TEST(WeightAverage, OnAnyNumberOfDevicesTheBitsAreThoseOfOne) {
  Recipe recipe = shared_with_averages(4);
  const Outcome want = outcome_on(0, recipe);
  for (const int devices : {1, 2, 3, 4}) EXPECT_TRUE(outcome_on(devices, recipe) == want) << devices;
  recipe.train.gather = Gather::copies;
  const Outcome by_copies = outcome_on(3, recipe);
  EXPECT_EQ(by_copies.losses, want.losses);
  recipe.train.gather = Gather::values;
  recipe.precision.weights = "mxfp4 rule=rceil";
  EXPECT_NE(outcome_on(0, recipe).losses, want.losses);
}

TEST(WeightAverage, ARunThatStopsGoesOnBitForBitWithAnyNumberOfDevices) {
  const TemporaryFolder folder;
  const Recipe recipe = shared_with_averages(5);
  Outcome whole;
  on_devices(0, recipe, [&](Trainer& trainer, Backend&) {
    for (int step = 0; step < 2; ++step) trainer.step();
    trainer.save(folder / "2.h5");
    whole = outcome_of(trainer, folder / "end.h5");
  });
  for (const int devices : {0, 1, 3}) {
    on_devices(devices, recipe, [&](Trainer& trainer, Backend&) {
      trainer.load(CheckpointFile(folder / "2.h5"));
      EXPECT_TRUE(outcome_of(trainer, folder / "again.h5") == whole) << devices;
    });
  }
}

TEST(WeightAverage, WhereNoneWasKeptItBeginsAtTheWeightAndOneThatIsNotKeptGoes) {
  const TemporaryFolder folder;
  TinyRun plain(tiny_recipe(4)), kept(with_averages(tiny_recipe(4)));
  plain.run(2), kept.run(2);
  plain.trainer.save(folder / "plain.h5"), kept.trainer.save(folder / "kept.h5");
  TinyRun begins(with_averages(tiny_recipe(4))), drops(tiny_recipe(4));
  begins.trainer.load(CheckpointFile(folder / "plain.h5"));
  drops.trainer.load(CheckpointFile(folder / "kept.h5"));
  for (const Parameter* p : begins.trainer.model().parameters())
    if (p->decay) {
      EXPECT_EQ(download(*begins.backend, p->average), download(*begins.backend, p->value));
    }
  for (const Parameter* p : drops.trainer.model().parameters()) EXPECT_FALSE(p->average) << p->name;
}

TEST(WeightAverage, AStepThatIsNotFiniteChangesNoAverage) {
  TinyRun run(with_averages(tiny_recipe(4)));
  run.run(1);
  std::vector<std::vector<float>> before;
  for (const Parameter* p : run.trainer.model().parameters())
    before.push_back(p->average ? download(*run.backend, p->average) : std::vector<float>{});
  const std::vector<Parameter*> parameters = run.trainer.model().parameters();
  Parameter& gain =
      **std::find_if(parameters.begin(), parameters.end(), [](const Parameter* p) { return !p->decay; });
  auto values = download(*run.backend, gain.value);
  values[0] = std::numeric_limits<float>::infinity();
  run.backend->upload(gain.value, values.data());
  EXPECT_THROW(run.trainer.step(), Error);
  std::size_t i = 0;
  for (const Parameter* p : run.trainer.model().parameters()) {
    const auto& want = before[i++];
    if (p->average) {
      EXPECT_EQ(download(*run.backend, p->average), want) << p->name;
    }
  }
}

}  // namespace
}  // namespace mxtape::test
