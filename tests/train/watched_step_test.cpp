#include "kernels/observers/watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/calls_rows.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

using Seen = Watch::Found;

struct Watched {
  TokenFile data = tiny_data();
  std::unique_ptr<Backend> device = make_backend("cpu");
  Watch watch;
  ObservingBackend observed{*device, {&watch}};
  Trainer trainer;

  explicit Watched(const Recipe& recipe) : trainer(observed, recipe, data) {}
  std::vector<const Seen*> all(const std::string& layer, const std::string& name) const {
    std::vector<const Seen*> found;
    for (const Seen& seen : watch.found())
      if (seen.layer == layer && seen.name == name) found.push_back(&seen);
    return found;
  }
};

TEST(Watch, SeesEveryOperandAndProductOfALinearLayerBySlotOnceAMicroBatch) {
  Watched run(tiny_mxfp4_recipe(3));
  run.trainer.step();
  EXPECT_TRUE(run.watch.found().empty()) << "not asked yet";
  run.watch.start();
  run.trainer.step();
  for (const char* slot :
       {"fprop.x", "fprop.w", "fprop.y", "dgrad.dy", "dgrad.w", "dgrad.dx", "wgrad.dy", "wgrad.dw"}) {
    const auto found = run.all("blocks.1.mlp.up", slot);
    ASSERT_EQ(found.size(), 3u) << slot;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i]->micro, std::int64_t(i)) << slot;
      EXPECT_EQ(found[i]->backward, std::string_view(slot).substr(0, 5) != "fprop") << slot;
    }
  }
  EXPECT_EQ(run.all("blocks.1.mlp.up", "wgrad.x").size(), 6u)
      << "made in the forward pass, multiplied in the other";
  EXPECT_EQ(run.all("blocks.1.mlp.up", "fprop.y")[0]->shape, (Shape{4 * 16, 128}));
  EXPECT_EQ(run.all("loss", "loss").size(), 3u);
}

TEST(Watch, ALayersNameThatAnErrorLeftIsNotThatOfTheNextStep) {
  const auto layers_after = [](const char* left) {
    Watched run(tiny_mxfp4_recipe(3));
    run.trainer.step();
    run.observed.enter(left, true);
    run.watch.start();
    run.trainer.step();
    std::vector<std::pair<std::string, bool>> layers;
    for (const Seen& seen : run.watch.found()) layers.emplace_back(seen.layer, seen.backward);
    return layers;
  };
  EXPECT_EQ(layers_after("blocks.0.mlp.up"), layers_after(""));
}

TEST(Watch, ChangesNoBitOfTheStepAndSeesNothingAfterIt) {
  Watched run(tiny_mxfp4_recipe(3));
  TinyRun plain(tiny_mxfp4_recipe(3));
  plain.trainer.step();
  run.trainer.step();
  run.watch.start();
  const auto a = run.trainer.step(), b = plain.trainer.step();
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.norm, b.norm);
  const std::size_t count = run.watch.found().size();
  EXPECT_EQ(run.trainer.step().loss, plain.trainer.step().loss);
  run.trainer.validate();
  EXPECT_EQ(run.watch.found().size(), count);
}

TEST(Watch, CountsWhatATensorHolds) {
  const auto device = make_backend("cpu");
  Watch watch;
  ObservingBackend observed(*device, {&watch});
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{3, 0, -4, inf, nan, -inf, 0, -0.0f};
  const Tensor x = device->empty({2, 4}), zero = device->empty({2, 4}), y = device->empty({2, 4});
  device->upload(x, values.data());
  device->fill(zero, 0);
  watch.start();
  observed.enter("here", false);
  observed.run(call::Add{y, x, zero});
  ASSERT_EQ(watch.found().size(), 1u);
  const Seen& seen = watch.found()[0];
  EXPECT_EQ(seen.layer + " " + seen.kernel + " " + seen.name, "here add y");
  EXPECT_EQ(seen.numbers.min, -4);
  EXPECT_EQ(seen.numbers.max, 3);
  EXPECT_EQ(seen.numbers.rms, std::sqrt(25.0 / 5));
  EXPECT_EQ(seen.numbers.zeros, 3.0 / 8);
  EXPECT_EQ(seen.numbers.nans, 1);
  EXPECT_EQ(seen.numbers.infinities, 2);
  EXPECT_EQ(seen.numbers.first_nonfinite, 3);
}

// The first tensor that is not finite, found in two ways: by the step's record, and by stopping there.
TEST(Watch, AgreesWithTheMessageOfTheDivergence) {
  for (const auto& [weights, slot] : {std::pair{"mxfp4", "fprop.y"}, {"e4m3", "fprop.w"}}) {
    Recipe recipe = tiny_recipe(5);
    recipe.precision.weights = weights;
    recipe.schedule.warmup_steps = 0;
    recipe.optim.learning_rate = std::string_view(weights) == "e4m3" ? 1e3f : 1e30f;
    recipe.optim.clip_norm = 0;
    Watched run(recipe);
    run.trainer.step();
    run.watch.start();
    try {
      run.trainer.step();
      FAIL();
    } catch (const Error& e) {
      const auto first = std::find_if(run.watch.found().begin(), run.watch.found().end(),
                                      [](const Seen& seen) { return seen.numbers.first_nonfinite >= 0; });
      ASSERT_NE(first, run.watch.found().end());
      EXPECT_EQ(first->name, slot);
      EXPECT_FALSE(first->backward);
      const std::string where = fmt::format("first seen in {}: ", first->layer),
                        what = fmt::format("{} {} holds a number that is not finite at element {}",
                                           first->name, first->shape.text(), first->numbers.first_nonfinite);
      const std::string text = e.what();
      EXPECT_NE(text.find(where), std::string::npos) << text << "\nwant " << where;
      // The message's step makes weight copies again, by another kernel than the update.
      EXPECT_NE(text.find(what), std::string::npos) << text << "\nwant " << what;
    }
  }
}

}  // namespace
}  // namespace mxtape::test
