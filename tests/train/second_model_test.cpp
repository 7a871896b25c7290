#include <gtest/gtest.h>

#include "nn/layers.h"
#include "nn/model.h"
#include "program/models/trained_model.h"
#include "program/records/run_log.h"
#include "program/run/run.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"
#include "train/sampling/sample.h"

namespace mxtape {
namespace {

/// Predicts a token from the one before it: embedding, one linear layer. Enough to be another kind of model.
class Bigram final : public Model {
 public:
  Bigram(Backend& backend, const ModelConfig& c, std::uint64_t seed)
      : config_(c),
        make_{backend, seed},
        embedding_(make_, c),
        head_(make_, "next", c.width, c.vocabulary, false, c.init_deviation, first_id(1)) {}

  const ModelConfig& config() const override { return config_; }
  Var forward(Tape& tape, const Tensor& tokens) override {
    return head_(tape, embedding_(tape, tokens, DType::f32));
  }
  std::vector<LinearWeight> linear_weights() override { return {head_.weight()}; }
  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all;
    embedding_.collect(all);
    head_.collect(all);
    return all;
  }
  void set_precision(const PrecisionPlan& plan) override { head_.set_precision(plan.linear.at("next")); }

  static ModelKind kind() {
    return {.name = "bigram",
            .linear_layers = [](const ModelConfig&) { return std::vector<std::string>{"next"}; },
            .attention_layers = [](const ModelConfig&) { return std::vector<std::string>{}; },
            .parameter_count = [](const ModelConfig& c) { return (2 * c.vocabulary + c.context) * c.width; },
            .make = [](Backend& backend, const ModelConfig& c, const PrecisionPlan& plan,
                       std::uint64_t seed) -> std::unique_ptr<Model> {
              auto model = std::make_unique<Bigram>(backend, c, seed);
              model->set_precision(plan);
              return model;
            }};
  }

 private:
  ModelConfig config_;
  Initialiser make_;
  Embedding embedding_;
  Linear head_;
};

TEST(SecondModel, IsTrainedSavedLoadedAndSampledAsTheProgramDoesIt) {
  model_kinds().push_back(Bigram::kind());
  const TemporaryFolder folder;
  const auto data = folder / "data.h5";
  test::tiny_data().write(data);
  Recipe recipe = test::tiny_mxfp4_recipe(60);
  recipe.model.kind = "bigram";
  recipe.precision.rules.clear();
  recipe.data.file = data.string();
  recipe.train.out = (folder / "runs").string();
  recipe.optim.learning_rate = 0.03f;
  testing::internal::CaptureStdout();
  RunPlan plan(recipe);
  plan.writes = true;
  train(std::move(plan));
  EXPECT_NE(testing::internal::GetCapturedStdout().find("next\n"), std::string::npos);

  const auto run = folder / "runs" / recipe.name;
  const RunLog log = read_run_log(run);
  EXPECT_LT(log.train.back().loss, 0.9 * log.train.front().loss);
  const TrainedModel trained = load_trained_model(run);
  EXPECT_EQ(trained.header.recipe.model.kind, "bigram");
  const std::int32_t first = 0;
  EXPECT_EQ(sample(*trained.backend, *trained.model, std::span(&first, 1), {.tokens = 5}).size(), 5u);
  model_kinds().pop_back();
}

TEST(SecondModel, OfAnUnknownKindIsRefusedByName) {
  try {
    model_kind("gpt3");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(e.what(), "no model kind 'gpt3'; did you mean 'gpt2'?");
  }
}

}  // namespace
}  // namespace mxtape
