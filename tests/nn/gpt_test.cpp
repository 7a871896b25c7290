#include "nn/gpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/tiny_gpt.h"

namespace mxtape {
namespace {

using namespace test;

Gpt make(const ModelConfig& c, std::uint64_t seed = 1, const LinearQuant& q = {}) {
  return {device(), c, uniform_plan(c, q), seed};
}

std::vector<float> logits(Gpt& model, const Tokens& tokens, Tape::Mode mode = Tape::Mode::evaluation,
                          PassKey key = {}) {
  Tape tape(device(), mode, key);
  return download(device(),
                  model.forward(tape, upload(device(), {tokens.batch, tokens.time}, tokens.inputs)).value);
}

TEST(Gpt, NamesItsParametersInTheOrderOfComputation) {
  ModelConfig c = tiny;
  c.layers = 1;
  Gpt model = make(c);
  std::vector<std::string> names;
  for (const Parameter* p : model.parameters()) names.push_back(p->name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "tokens.weight", "positions.weight", "blocks.0.norm1.gain", "blocks.0.norm1.bias",
                       "blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias", "blocks.0.attn.out.weight",
                       "blocks.0.attn.out.bias", "blocks.0.norm2.gain", "blocks.0.norm2.bias",
                       "blocks.0.mlp.up.weight", "blocks.0.mlp.up.bias", "blocks.0.mlp.down.weight",
                       "blocks.0.mlp.down.bias", "norm.gain", "norm.bias"}));
}

TEST(Gpt, HasAsManyParametersAsItsConfigSays) {
  for (bool tied : {true, false})
    for (bool bias : {true, false}) {
      ModelConfig c = tiny;
      c.tied_head = tied;
      c.bias = bias;
      Gpt model = make(c);
      std::int64_t count = 0;
      for (const Parameter* p : model.parameters()) count += p->value.count();
      EXPECT_EQ(count, parameter_count(c));
    }
}

TEST(Gpt, DecaysMatricesOnly) {
  Gpt model = make(tiny);
  for (const Parameter* p : model.parameters()) EXPECT_EQ(p->decay, p->name.ends_with(".weight")) << p->name;
}

TEST(Gpt, StartsLikeGpt2) {
  ModelConfig c = tiny;
  c.width = 96;
  c.mlp_width = 0;
  Gpt model = make(c);
  for (const Parameter* p : model.parameters()) {
    const std::vector<float> values = download(device(), p->value);
    const double n = double(values.size());
    if (!p->name.ends_with(".weight")) {
      for (float v : values) EXPECT_EQ(v, p->name.ends_with(".gain") ? 1 : 0) << p->name;
      continue;
    }
    const bool residual = p->name.ends_with("out.weight") || p->name.ends_with("down.weight");
    const double deviation = residual ? 0.02 / std::sqrt(2.0 * 2) : 0.02;
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    // Five standard errors of a mean and of a variance of n normal numbers.
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << p->name;
    EXPECT_NEAR(squares / n / (deviation * deviation), 1, 5 * std::sqrt(2 / n)) << p->name;
  }
}

TEST(Gpt, DrawsEachParameterFromTheSeedAndItsOwnId) {
  ModelConfig deeper = tiny;
  deeper.layers = 3;
  Gpt a = make(tiny), b = make(deeper), c = make(tiny, 2);
  const auto value = [](Gpt& model, std::string_view name) {
    for (const Parameter* p : model.parameters())
      if (p->name == name) return download(device(), p->value);
    return std::vector<float>{};
  };
  EXPECT_EQ(value(a, "blocks.1.attn.qkv.weight"), value(b, "blocks.1.attn.qkv.weight"));
  EXPECT_NE(value(a, "blocks.1.attn.qkv.weight"), value(c, "blocks.1.attn.qkv.weight"));
  EXPECT_NE(value(a, "blocks.0.mlp.up.weight"), value(a, "blocks.1.mlp.up.weight"));
}

TEST(Gpt, PredictsFromEarlierTokensOnly) {
  Gpt model = make(tiny);
  Tokens tokens(tiny, 1, 8, 3);
  const std::vector<float> before = logits(model, tokens);
  tokens.inputs[5] = (tokens.inputs[5] + 1) % std::int32_t(tiny.vocabulary);
  const std::vector<float> after = logits(model, tokens);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 5 * tiny.vocabulary, after.begin()));
  EXPECT_FALSE(
      std::equal(before.begin() + 5 * tiny.vocabulary, before.end(), after.begin() + 5 * tiny.vocabulary));
}

void expect_drops(const ModelConfig& c) {
  Gpt model = make(c), plain = make(tiny);
  const Tokens tokens(c, 2, 6, 3);
  EXPECT_EQ(logits(model, tokens), logits(plain, tokens));
  const auto training = [&](std::uint32_t step) {
    return logits(model, tokens, Tape::Mode::training, {.seed = 1, .step = step});
  };
  EXPECT_NE(training(0), logits(plain, tokens));
  EXPECT_EQ(training(0), training(0));
  EXPECT_NE(training(0), training(1));
}

TEST(Gpt, DropsInTrainingOnlyAndAnewEachPass) {
  ModelConfig c = tiny;
  c.dropout = 0.2f;
  expect_drops(c);
}

TEST(Gpt, DropsWeightsOfAttentionInTrainingOnlyAndAnewEachPass) {
  ModelConfig c = tiny;
  c.attention_dropout = 0.2f;
  expect_drops(c);
}

TEST(Gpt, ChangesItsPrecisionBetweenPasses) {
  Gpt model = make(tiny), quantized = make(tiny, 1, fp4_training());
  const Tokens tokens(tiny, 2, 6, 3);
  const std::vector<float> exact = logits(model, tokens);
  model.set_precision(uniform_plan(tiny, fp4_training()));
  EXPECT_EQ(logits(model, tokens), logits(quantized, tokens));
  EXPECT_NE(logits(model, tokens), exact);
  model.set_precision(uniform_plan(tiny));
  EXPECT_EQ(logits(model, tokens), exact);
}

TEST(Gpt, GivesEachLayerTheRoundingsOfItsName) {
  const Tokens tokens(tiny, 2, 6, 3);
  Gpt plain = make(tiny);
  for (const std::string& name : linear_layer_names(tiny)) {
    PrecisionPlan plan = uniform_plan(tiny);
    plan.linear[name].fprop_x = mxfp4;
    Gpt model(device(), tiny, plan, 1);
    EXPECT_NE(logits(model, tokens), logits(plain, tokens)) << name;
  }
  for (const std::string& name : attention_layer_names(tiny)) {
    PrecisionPlan plan = uniform_plan(tiny);
    plan.attention[name].qk_q = mxfp4;
    Gpt model(device(), tiny, plan, 1);
    EXPECT_NE(logits(model, tokens), logits(plain, tokens)) << name;
  }
}

TEST(Gpt, RefusesAPlanThatDoesNotNameItsLayers) {
  const auto message = [](const PrecisionPlan& plan) {
    try {
      Gpt(device(), tiny, plan, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  PrecisionPlan missing = uniform_plan(tiny);
  missing.linear.erase("head");
  EXPECT_EQ(message(missing), "precision plan: 8 linear and 2 attention layers, the model has 9 and 2");
  missing.linear["tail"] = {};
  EXPECT_EQ(message(missing), "precision plan: no entry for layer 'head'");
}

TEST(Gpt, RefusesSequencesLongerThanItsContext) {
  Gpt model = make(tiny);
  EXPECT_THROW(logits(model, Tokens(tiny, 1, tiny.context + 1, 1)), Error);
}

}  // namespace
}  // namespace mxtape
