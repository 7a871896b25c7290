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

const ModelConfig tiny_llama{.vocabulary = 17,
                             .layers = 2,
                             .heads = 4,
                             .width = 24,
                             .context = 10,
                             .mlp_width = 40,
                             .bias = false,
                             .tied_head = false,
                             .norm = NormKind::rms,
                             .positions = Positions::rope,
                             .mlp = MlpKind::swiglu,
                             .kv_heads = 2,
                             .head_width = 8,
                             .qk_norm = true};

TEST(Gpt, ALlamaNamesItsParametersInTheOrderOfComputation) {
  ModelConfig c = tiny_llama;
  c.layers = 1;
  Gpt model = make(c);
  std::vector<std::string> names;
  for (const Parameter* p : model.parameters()) names.push_back(p->name + " " + p->value.shape().text());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "tokens.weight [17, 24]", "blocks.0.norm1.gain [24]",
                       "blocks.0.attn.qkv.weight [64, 24]", "blocks.0.attn.q_norm.gain [8]",
                       "blocks.0.attn.k_norm.gain [8]", "blocks.0.attn.out.weight [24, 32]",
                       "blocks.0.norm2.gain [24]", "blocks.0.mlp.gate_up.weight [80, 24]",
                       "blocks.0.mlp.down.weight [24, 40]", "norm.gain [24]", "head.weight [17, 24]"}));
}

TEST(Gpt, ALlamaHasAsManyParametersAsItsConfigSays) {
  for (const bool bias : {true, false})
    for (const bool qkv_bias : {true, false})
      for (const bool qk_norm : {true, false}) {
        ModelConfig c = tiny_llama;
        c.bias = bias, c.qkv_bias = qkv_bias, c.qk_norm = qk_norm;
        Gpt model = make(c);
        std::int64_t count = 0;
        for (const Parameter* p : model.parameters()) count += p->value.count();
        EXPECT_EQ(count, parameter_count(c));
      }
}

// Only differences of positions count: a text that begins later in the context would give the same logits.
TEST(Gpt, TurnsByPositionSoThatTheOrderOfEarlierTokensMatters) {
  Gpt model = make(tiny_llama);
  Tokens tokens(tiny_llama, 1, 8, 3);
  tokens.inputs[1] = 1, tokens.inputs[2] = 2;
  const std::vector<float> before = logits(model, tokens);
  std::swap(tokens.inputs[1], tokens.inputs[2]);
  const std::vector<float> after = logits(model, tokens);
  const auto last = std::ptrdiff_t(7 * tiny_llama.vocabulary);
  EXPECT_FALSE(std::equal(before.begin() + last, before.end(), after.begin() + last));
}

TEST(Gpt, ALlamaGivesEachLayerAndGainTheRoundingsOfItsName) {
  const Tokens tokens(tiny_llama, 2, 6, 3);
  Gpt plain = make(tiny_llama);
  for (const std::string& name : linear_layer_names(tiny_llama)) {
    PrecisionPlan plan = uniform_plan(tiny_llama);
    plan.linear[name].fprop_x = mxfp4;
    Gpt model(device(), tiny_llama, plan, 1);
    EXPECT_NE(logits(model, tokens), logits(plain, tokens)) << name;
  }
  for (const std::string& name : parameter_layer_names(tiny_llama)) {
    const auto with_gains = [&](const Quantizer& q) {
      PrecisionPlan plan = uniform_plan(tiny_llama);
      plan.parameters[name] = q;
      Gpt model(device(), tiny_llama, plan, 1);
      for (Parameter* p : model.parameters())  // ones are numbers of every format
        if (p->name.ends_with(".gain")) {
          const std::vector<float> gains(std::size_t(p->value.count()), 1.23f);
          device().upload(p->value, gains.data());
        }
      return logits(model, tokens);
    };
    EXPECT_NE(with_gains(mxfp4), with_gains({})) << name;
  }
  for (const std::string& name : attention_layer_names(tiny_llama)) {
    PrecisionPlan plan = uniform_plan(tiny_llama);
    plan.attention[name].qk_k = mxfp4;
    Gpt model(device(), tiny_llama, plan, 1);
    EXPECT_NE(logits(model, tokens), logits(plain, tokens)) << name;
  }
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
