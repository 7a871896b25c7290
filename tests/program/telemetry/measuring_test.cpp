#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/around/measuring_backend.h"
#include "kernels/choose/make_backend.h"
#include "program/telemetry/weights.h"
#include "tests/train/tiny_run.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

Recipe with_precision(const char* weights, const char* activations, const char* gradients) {
  Recipe recipe = test::tiny_mxfp4_recipe(10);
  recipe.precision = {};
  recipe.precision.weights = weights;
  recipe.precision.activations = activations;
  recipe.precision.gradients = gradients;
  recipe.train.accumulation = 1;
  return recipe;
}

/// A run of two steps, of which the second is measured.
struct Measured {
  std::unique_ptr<Backend> device = make_backend("cpu");
  MeasuringBackend backend;
  TokenFile data = test::tiny_data();
  Trainer trainer;
  double loss = 0;
  std::vector<float> before;  // blocks.0.mlp.up's weight
  Measurements found;

  explicit Measured(const Recipe& recipe, MeasuringBackend::Options options = {}, bool measure = true)
      : backend(*device, std::move(options)), trainer(backend, recipe, data) {
    name_weights(backend, trainer.model());
    trainer.step();
    before = weight();
    if (measure) backend.start(), measure_copies_at_hand(backend, trainer.model());
    loss = trainer.step().loss;
    if (measure) found = backend.stop();
  }
  std::vector<float> weight() {
    for (const Parameter* p : trainer.model().parameters())
      if (p->name == "blocks.0.mlp.up.weight") {
        std::vector<float> w(std::size_t(p->value.count()));
        device->download(w.data(), p->value);
        return w;
      }
    return {};
  }
  const ErrorStatistics* errors(const std::string& layer, const std::string& slot, const Quantizer& q) const {
    for (const auto& o : found.operands)
      if (o.layer == layer && o.slot == slot && o.quantizer == q) return &o.errors;
    return nullptr;
  }
};

TEST(Measuring, ChangesNoBitOfTheStep) {
  const Recipe recipe = with_precision("mxfp4", "nvfp4", "mxfp4 round=stochastic");
  Measured with(recipe, {{mxfp8_e4m3}}), without(recipe, {}, false);
  EXPECT_EQ(with.loss, without.loss);
  EXPECT_EQ(with.weight(), without.weight());
}

TEST(Measuring, FindsEverySlotOfEveryLayerInItsFormatAndInTheOthers) {
  const Recipe recipe = with_precision("mxfp4", "mxfp6", "mxfp8 round=stochastic");
  const Measured m(recipe, {{nvfp4}});
  for (const char* layer : {"blocks.0.attn.qkv", "blocks.0.attn.out", "blocks.1.mlp.up", "blocks.1.mlp.down"})
    for (const auto& [slot, format] :
         std::vector<std::pair<const char*, const char*>>{{"fprop.x", "mxfp6"},
                                                          {"fprop.w", "mxfp4"},
                                                          {"dgrad.dy", "mxfp8 round=stochastic"},
                                                          {"dgrad.w", "mxfp4"},
                                                          {"wgrad.dy", "mxfp8 round=stochastic"},
                                                          {"wgrad.x", "mxfp6"}}) {
      const ErrorStatistics *own = m.errors(layer, slot, parse_quantizer(format)),
                            *other = m.errors(layer, slot, nvfp4);
      ASSERT_TRUE(own && other) << layer << " " << slot;
      EXPECT_GT(own->relative_rmse(), 0) << layer << " " << slot;
      EXPECT_GT(own->count, 0);
    }
  EXPECT_TRUE(m.errors("head", "fprop.x", f32_passthrough));  // which nothing rounds
}

TEST(Measuring, ASmallTensorIsMeasuredWhole) {
  Measured m(with_precision("mxfp4", "bf16", "bf16"));
  const auto& w = m.before;  // what the step multiplied
  const std::int64_t cols = m.trainer.recipe().model.width, rows = std::int64_t(w.size()) / cols;
  for (const auto& [slot, axis] : {std::pair("fprop.w", Axis::row), std::pair("dgrad.w", Axis::column)}) {
    const ErrorStatistics want = error_statistics(w.data(), rows, cols, axis, mxfp4, {});
    const ErrorStatistics* const got = m.errors("blocks.0.mlp.up", slot, mxfp4);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->count, want.count);
    EXPECT_EQ(got->mse, want.mse);
    EXPECT_EQ(got->scales, want.scales);
  }
}

TEST(Measuring, GradientsOfCoarserFormatsPointFurtherAway) {
  const auto worst_cosine = [](const char* format) {
    const Measured m(with_precision(format, format, format));
    double worst = 1;
    std::set<std::string> slots;
    for (const auto& g : m.found.gradients) worst = std::min(worst, g.cosine), slots.insert(g.slot);
    EXPECT_EQ(slots, (std::set<std::string>{"dgrad.dx", "wgrad.dw"})) << format;
    return worst;
  };
  const double bf16 = worst_cosine("bf16"), fp8 = worst_cosine("mxfp8"), fp4 = worst_cosine("mxfp4"),
               int2 = worst_cosine("int2 scale=e8m0");
  EXPECT_GT(bf16, 1 - 1e-4);  // eight significant bits: angles of about 2^-8, whose cosines are 1 - 2^-17
  EXPECT_GT(fp8, 1 - 1e-2);   // four significant bits
  EXPECT_LT(fp8, bf16);
  EXPECT_LT(fp4, fp8);
  EXPECT_LT(int2, fp4);
}

TEST(Measuring, GradientsFromTheForwardsValuesAreComparedWithThoseOfTheMaster) {
  Recipe recipe = with_precision("mxfp8", "mxfp8", "mxfp8");
  recipe.precision.rules = {{"blocks.*", {"*.source"}, "source=forward", "here"}};
  const auto of = [](const Measured& m) {
    std::map<std::string, double> cosines;
    for (const auto& g : m.found.gradients)
      if (g.layer == "blocks.0.mlp.up") cosines[g.slot] = g.cosine;
    return cosines;
  };
  const auto plain = of(Measured(recipe));
  recipe.precision.rules.push_back({"blocks.*", {"*.hadamard"}, "hadamard=16 signs=none", "here"});
  const auto rotated = of(Measured(recipe));
  for (const auto& cosines : {plain, rotated})
    for (const char* slot : {"wgrad.dw", "dgrad.dx"}) {
      ASSERT_TRUE(cosines.contains(slot)) << slot;
      EXPECT_GT(cosines.at(slot), 1 - 1e-2) << slot;  // four significant bits, as above
      EXPECT_LT(cosines.at(slot), 1 - 1e-7) << slot;  // and not the rounded values with themselves
    }
}

TEST(Measuring, SaysWhichGradientsAreLeftOutAndWhy) {
  const Measured m(with_precision("mxfp4", "bf16", "bf16"));
  std::map<std::string, std::set<std::string>> slots;
  for (const auto& one : m.found.left_out) {
    EXPECT_EQ(one.reason, "nothing rounds its operands");
    slots[one.layer].insert(one.slot);
  }
  EXPECT_EQ(slots, (std::map<std::string, std::set<std::string>>{{"head", {"dgrad.dx", "wgrad.dw"}}}));
}

TEST(Measuring, OscillationIsHowFarRoundedWeightsMoveOverHowFarWeightsDo) {
  Measured m(with_precision("mxfp4", "bf16", "bf16"));
  const auto after = m.weight();
  const std::int64_t cols = m.trainer.recipe().model.width, rows = std::int64_t(after.size()) / cols;
  const auto rounded = [&](const std::vector<float>& w) {
    std::vector<float> y(w.size());
    quantize_reference(y.data(), w.data(), rows, cols, Axis::row, mxfp4, {});
    return y;
  };
  const auto q0 = rounded(m.before), q1 = rounded(after);
  double moved = 0, rounded_moved = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    moved += std::fabs(double(after[i]) - double(m.before[i]));
    rounded_moved += std::fabs(double(q1[i]) - double(q0[i]));
  }
  for (const auto& weight : m.found.weights)
    if (weight.layer == "blocks.0.mlp.up") {
      EXPECT_EQ(weight.ratio, rounded_moved / moved);
    }
  EXPECT_EQ(m.found.weights.size(), 8);  // four layers of each of two blocks
}

}  // namespace
}  // namespace mxtape
