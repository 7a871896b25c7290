#include "train/post_training/diffuse_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/observers/forwarding_backend.h"
#include "tests/support/tensors.h"
#include "tests/support/uniform_plan.h"
#include "tests/train/tiny_run.h"
#include "train/post_training/diffuse.h"
#include "train/post_training/gram.h"

namespace mxtape::test {
namespace {

/// Keeps what one layer's forward GEMM multiplies its weight by.
class InputOfLayer final : public ForwardingBackend {
 public:
  InputOfLayer(Backend& inner, std::string wanted) : ForwardingBackend(inner), wanted_(std::move(wanted)) {}
  void enter(std::string_view layer, bool backward) override {
    layer_ = layer;
    inner_.enter(layer, backward);
  }
  void dispatch(AnyCall any) override {
    const auto* const gemm = any.as<call::Gemm>();
    if (gemm && gemm->a.site.slot == Slot::fprop_x && layer_ == wanted_)
      input = test::download(inner_, gemm->a.elements);
    inner_.dispatch(any);
  }
  std::vector<float> input;

 private:
  std::string wanted_, layer_;
};

class DiffuseModel : public testing::Test {
 protected:
  DiffuseModel() {
    run_.run(12);
    set_precision("mxfp4");
    calibration_ = Loader(run_.data.train, 8, run_.recipe.model.context, 3).at(0);
  }
  void set_precision(const char* format) {
    const Quantizer q = parse_quantizer(format);
    LinearQuant quant;
    quant.fprop_w = quant.fprop_x = q;
    model().set_precision(uniform_plan(run_.trainer.recipe().model, quant));
  }
  Model& model() { return run_.trainer.model(); }
  std::vector<std::vector<float>> weights() {
    std::vector<std::vector<float>> all;
    for (const LinearWeight& w : model().linear_weights())
      all.push_back(test::download(*run_.backend, w.parameter.value));
    return all;
  }
  std::vector<float> input_of(const std::string& layer) {
    InputOfLayer backend(*run_.backend, layer);
    for (const LinearWeight& w : model().linear_weights()) w.parameter.written(w.parameter.version);
    Tape tape(backend, Tape::Mode::evaluation);
    model().forward(tape,
                    test::upload(backend, {calibration_.batch, calibration_.time}, calibration_.inputs));
    return backend.input;
  }
  void put(const LinearWeight& w, const std::vector<float>& values) {
    run_.backend->upload(w.parameter.value, values.data());
    w.parameter.written(w.parameter.version);
  }

  TinyRun run_{tiny_recipe(20)};
  Batch calibration_;
};

TEST_F(DiffuseModel, GivesEachLayerTheInputsThatItHasWithTheOnesBeforeItReplaced) {
  const auto before = weights();
  const auto layers = diffuse_weights(*run_.backend, model(), calibration_, {});
  const auto after = weights();
  const auto linear = model().linear_weights();
  ASSERT_EQ(layers.size(), 8u) << "four of each block; the head is tied";
  for (std::size_t i = 0; i < linear.size(); ++i) put(linear[i], before[i]);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    SCOPED_TRACE(layers[i].layer);
    ASSERT_EQ(layers[i].layer, linear[i].layer);
    const std::int64_t n = layers[i].rows, k = layers[i].cols;
    const std::vector<float> x = input_of(layers[i].layer);
    Gram gram(k);
    gram.add(x.data(), std::int64_t(x.size()) / k);
    EXPECT_EQ(gram.rows(), 8 * run_.recipe.model.context);
    EXPECT_EQ(diffuse(before[i].data(), n, k, mxfp4, error_paths(gram, 0.01)).values, after[i]);
    EXPECT_LT(layers[i].error, layers[i].direct_error);
    EXPECT_EQ(layers[i].moved, 0);
    EXPECT_EQ(cast_directly(after[i].data(), n, k, mxfp4), after[i]);
    put(linear[i], after[i]);
  }
  EXPECT_TRUE(linear.back().tied);
  EXPECT_EQ(after.back(), before.back()) << "the embedding reads these numbers";
}

TEST_F(DiffuseModel, TellsLayersApartThatItDoesNotTouch) {
  const auto before = weights();
  PrecisionPlan plan = uniform_plan(run_.trainer.recipe().model);
  plan.linear.at("blocks.1.mlp.up").fprop_w = nvfp4;
  model().set_precision(plan);
  EXPECT_EQ(layers_to_diffuse(model()), std::vector<std::string>{"blocks.1.mlp.up"});
  const auto layers = diffuse_weights(*run_.backend, model(), calibration_, {});
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers.front().format, "nvfp4");
  const auto after = weights();
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i] == before[i], model().linear_weights()[i].layer != "blocks.1.mlp.up");
  set_precision("f32");
  EXPECT_TRUE(diffuse_weights(*run_.backend, model(), calibration_, {}).empty());
  EXPECT_EQ(weights(), after);
}

TEST_F(DiffuseModel, NamesTheLayerThatCannotBeDiffused) {
  const auto message_of = [&] {
    try {
      diffuse_weights(*run_.backend, model(), calibration_, {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  PrecisionPlan plan = uniform_plan(run_.trainer.recipe().model);
  plan.linear.at("blocks.0.mlp.up").fprop_w = parse_quantizer("nvfp4 outer=axis");
  model().set_precision(plan);
  EXPECT_NE(message_of().find("layer 'blocks.0.mlp.up': format 'nvfp4 outer=axis'"), std::string::npos);
  plan.linear.at("blocks.0.mlp.up").fprop_w = mxfp4;
  plan.linear.at("blocks.0.mlp.up").fprop_rotation = parse_rotation("hadamard=16");
  model().set_precision(plan);
  EXPECT_NE(message_of().find("layer 'blocks.0.mlp.up': its weight is rotated"), std::string::npos);
  set_precision("mxfp4");
  const LinearWeight weight = model().linear_weights()[2];
  auto values = test::download(*run_.backend, weight.parameter.value);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  put(weight, values);
  EXPECT_NE(message_of().find("layer 'blocks.0.mlp.up': its weight holds nan at [0, 5]"), std::string::npos)
      << message_of();
}

}  // namespace
}  // namespace mxtape::test
