// Invariants of training, on a model small enough for seconds.
#include <gtest/gtest.h>

#include <cmath>

#include "core/parallel.h"
#include "kernels/observers/finite.h"
#include "tests/support/counting_backend.h"
#include "tests/support/tiny_gpt.h"

namespace mxtape {
namespace {

using namespace test;

struct Plan {
  const char* name;
  LinearQuant quant;
};
void PrintTo(const Plan& plan, std::ostream* out) { *out << plan.name; }

class Precision : public testing::TestWithParam<Plan> {};
INSTANTIATE_TEST_SUITE_P(Plans, Precision,
                         testing::Values(Plan{"f32", LinearQuant{}}, Plan{"mxfp4", fp4_training()}),
                         testing::PrintToStringParamName());

TEST_P(Precision, StartsAtTheEntropyOfAGuess) {
  // Logits have deviation s = 0.02 sqrt(C) = 0.1, so the mean loss is ln V + s^2 / 2 with a standard error of
  // s / sqrt(60). The tied head adds at most 0.02 C = 0.5 to the input token's own logit: e^0.5 - 1 in V to
  // the sum. Four standard errors around that; MXFP4 moves a logit by 16% at most.
  Gpt model(device(), tiny, uniform_plan(tiny, GetParam().quant), 1);
  const float loss = pass(device(), model, Tokens(tiny, 6, 10, 1), Tape::Mode::evaluation);
  const double s = 0.02 * std::sqrt(24.0), V = 17;
  EXPECT_GT(loss, std::log(V) - 1.2 * 4 * s / std::sqrt(60.0));
  EXPECT_LT(loss, std::log(V) + s * s / 2 + (std::exp(0.5) - 1) / V + 1.2 * 4 * s / std::sqrt(60.0));
}

TEST_P(Precision, DrivesASingleBatchBelowOneTwentieth) {
  Gpt model(device(), tiny, uniform_plan(tiny, GetParam().quant), 1);
  AdamW optimizer(device(), model.parameters(), {.learning_rate = 1e-2f, .beta2 = 0.95f, .weight_decay = 0});
  const Tokens tokens(tiny, 2, 10, 1);
  float loss = 0;
  for (std::uint32_t step = 0; step < 120; ++step) {
    loss = pass(device(), model, tokens, Tape::Mode::training, {.seed = 1, .step = step});
    optimizer.step(1);
  }
  EXPECT_LT(loss, 0.05);
}

TEST(Training, WithBf16ActivationsFollowsF32WithinTheirRoundings) {
  PrecisionPlan narrow = uniform_plan(tiny);
  narrow.activations = DType::bf16;
  Gpt wide_model(device(), tiny, uniform_plan(tiny), 1), narrow_model(device(), tiny, narrow, 1);
  const Tokens tokens(tiny, 6, 10, 1);
  const float wide = pass(device(), wide_model, tokens), rounded = pass(device(), narrow_model, tokens);
  // Each of the 14 results on the way to the logits is off by at most 2^-9 of itself, and the loss is a mean
  // of log-sum-exps, whose slope in the logits is at most 2 of their largest size, 1 here.
  EXPECT_NEAR(rounded, wide, 2 * 14 * 0x1p-9);
  EXPECT_NE(rounded, wide);
  for (std::size_t i = 0; i < wide_model.parameters().size(); ++i) {
    const Parameter &a = *wide_model.parameters()[i], &b = *narrow_model.parameters()[i];
    EXPECT_EQ(b.grad.dtype(), DType::f32) << b.name;
    const auto want = download(device(), a.grad), got = download(device(), b.grad);
    double error = 0, size = 0;
    for (std::size_t j = 0; j < want.size(); ++j) {
      error += std::pow(double(got[j]) - want[j], 2);
      size += std::pow(double(want[j]), 2);
    }
    // Forward and backward pass about 30 rounded results: at most 30 * 2^-9 of the gradient in norm.
    EXPECT_LT(std::sqrt(error), 30 * 0x1p-9 * std::sqrt(size)) << a.name;
  }
}

TEST(Training, WithBf16ActivationsDrivesASingleBatchBelowOneTwentieth) {
  PrecisionPlan plan = uniform_plan(tiny, fp4_training());
  plan.activations = DType::bf16;
  Gpt model(device(), tiny, plan, 1);
  AdamW optimizer(device(), model.parameters(), {.learning_rate = 1e-2f, .beta2 = 0.95f, .weight_decay = 0});
  const Tokens tokens(tiny, 2, 10, 1);
  float loss = 0;
  for (std::uint32_t step = 0; step < 120; ++step) {
    loss = pass(device(), model, tokens, Tape::Mode::training, {.seed = 1, .step = step});
    optimizer.step(1);
  }
  EXPECT_LT(loss, 0.05);
}

/// Every parameter's bits after five steps of a model with dropout, in stochastic MXFP4.
std::vector<std::vector<float>> five_steps(Backend& backend) {
  ModelConfig c = tiny;
  c.dropout = 0.1f;
  Gpt model(backend, c, uniform_plan(c, fp4_training()), 1);
  AdamW optimizer(backend, model.parameters(), {});
  for (std::uint32_t step = 0; step < 5; ++step) {
    pass(backend, model, Tokens(c, 8, 10, step), Tape::Mode::training, {.seed = 1, .step = step});
    optimizer.step(1);
  }
  std::vector<std::vector<float>> all;
  for (const Parameter* p : model.parameters()) all.push_back(download(backend, p->value));
  return all;
}

TEST(Training, GivesTheSameBitsOnOneThreadAndTwo) {
  const int before = threads();
  set_threads(1);
  const auto one = five_steps(device());
  set_threads(2);
  const auto two = five_steps(device());
  set_threads(before);
  EXPECT_EQ(one, two);
}

TEST(Training, GivesTheSameBitsUnderTheCheckingBackend) {
  Finite finite;
  ObservingBackend checked(device(), {&finite});
  EXPECT_EQ(five_steps(checked), five_steps(device()));
}

TEST(Training, QuantizesEachWeightOncePerOptimizerStepForAllMicroBatches) {
  CountingBackend counting(device());
  Gpt model(counting, tiny, uniform_plan(tiny, fp4_training()), 1);
  AdamW optimizer(counting, model.parameters(), {});
  constexpr int steps = 3, micro_batches = 4;
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::uint32_t micro = 0; micro < micro_batches; ++micro)
      pass(counting, model, Tokens(tiny, 2, 10, micro), Tape::Mode::training,
           {.seed = 1, .step = step * micro_batches + micro}, 1.0f / micro_batches);
    optimizer.step(1);
  }
  for (const Parameter* p : model.parameters()) {
    const bool multiplies = p->name.ends_with(".weight") && p->name != "positions.weight";
    const int times = 1 + steps;  // at the first use, and with every update
    EXPECT_EQ(counting.of(p->value), (multiplies ? CountingBackend::Count{.calls = times, .copies = 2 * times}
                                                 : CountingBackend::Count{}))
        << p->name;
  }
}

TEST(Training, DropsAfterTheEmbeddingAndBothBranchesOfEachBlock) {
  ModelConfig c = tiny;
  c.dropout = 0.1f;
  CountingBackend counting(device());
  Gpt model(counting, c, uniform_plan(c), 1);
  pass(counting, model, Tokens(c, 2, 10, 1), Tape::Mode::evaluation);
  EXPECT_EQ(counting.dropouts, 0);
  pass(counting, model, Tokens(c, 2, 10, 1));
  EXPECT_EQ(counting.dropouts, 2 * (1 + 2 * c.layers));  // forward and backward
}

TEST(Training, ReusesItsMemoryFromTheSecondStepOn) {
  Gpt model(device(), tiny, uniform_plan(tiny, fp4_training()), 1);
  AdamW optimizer(device(), model.parameters(), {});
  const auto used_after_step = [&] {
    pass(device(), model, Tokens(tiny, 4, 10, 1));
    optimizer.step(1);
    return device().used_bytes();
  };
  const std::int64_t first = used_after_step();
  EXPECT_EQ(used_after_step(), first);
}

}  // namespace
}  // namespace mxtape
