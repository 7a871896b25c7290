#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/choose/make_backend.h"
#include "program/records/telemetry.h"
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
  std::unique_ptr<Backend> device;
  Measure measure;
  ObservingBackend backend;
  TokenFile data = test::tiny_data();
  Trainer trainer;
  double loss = 0;
  std::vector<float> before;  // blocks.0.mlp.up's weight
  Measurements found;

  explicit Measured(const Recipe& recipe, Measure::Options options = {}, bool measures = true)
      : device(make_backend("cpu", recipe.compute.options())),
        measure(std::move(options)),
        backend(*device, {&measure}),
        trainer(backend, recipe, data) {
    trainer.step();
    before = weight();
    if (measures) start(measure, backend, trainer.model());
    loss = trainer.step().loss;
    if (measures) found = measure.stop();
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

TEST(Measuring, FindsBothSlotsThatOneCopyServesEachInOtherFormatsAlongItsAxis) {
  for (const char* format : {"bf16", "mxfp4 block=4x4"}) {
    const Measured m(with_precision(format, format, format), {{nvfp4}});
    for (const char* layer : {"blocks.0.attn.qkv", "blocks.1.mlp.down"})
      for (const auto& [slot, twin] :
           {std::pair("fprop.x", "wgrad.x"), {"fprop.w", "dgrad.w"}, {"dgrad.dy", "wgrad.dy"}}) {
        const ErrorStatistics *own = m.errors(layer, slot, parse_quantizer(format)),
                              *same = m.errors(layer, twin, parse_quantizer(format)),
                              *along = m.errors(layer, slot, nvfp4), *across = m.errors(layer, twin, nvfp4);
        ASSERT_TRUE(own && same && along && across) << format << " " << layer << " " << slot;
        EXPECT_NE(along->mse, across->mse) << format << " " << layer << " " << slot;
      }
  }
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

TEST(Measuring, ACopyAtHandIsMeasuredAgainstWhatItWasMadeFromInWhateverLayoutThatLies) {
  for (const GemmChoice gemm : {GemmChoice::library, GemmChoice::integer}) {
    Recipe recipe = with_precision("mxfp4", "mxfp4", "mxfp4");
    recipe.precision.rules = {{"blocks.*", {"dgrad.source"}, "source=forward", "here"}};
    recipe.compute.gemm = gemm;
    Measured m(recipe);
    const std::int64_t cols = recipe.model.width, rows = std::int64_t(m.before.size()) / cols;
    std::vector<float> forward(m.before.size());
    quantize_reference(forward.data(), m.before.data(), rows, cols, Axis::row, mxfp4, {});
    const ErrorStatistics want = error_statistics(forward.data(), rows, cols, Axis::column, mxfp4, {});
    const ErrorStatistics* const got = m.errors("blocks.0.mlp.up", "dgrad.w", mxfp4);
    ASSERT_TRUE(got);
    EXPECT_GT(got->mse, 0);
    EXPECT_EQ(got->mse, want.mse) << int(gemm);
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

}  // namespace
}  // namespace mxtape
