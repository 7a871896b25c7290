#include <gtest/gtest.h>

#include <map>

#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/oracle.h"
#include "tests/support/tiny_gpt.h"

namespace mxtape {
namespace {

using namespace test;
using oracle::Complex;
using Parameters = std::map<std::string, oracle::Values<Complex>>;

/// The loss of GPT-2's or Llama's architecture, written from their descriptions in one piece.
Complex gpt_loss(const ModelConfig& c, Parameters& p, const Tokens& tokens) {
  const auto C = std::size_t(c.width), T = std::size_t(tokens.time), F = std::size_t(c.hidden());
  const auto H = std::size_t(c.heads), G = std::size_t(c.key_heads()), D = std::size_t(c.head_channels());
  const auto linear = [&](const oracle::Values<Complex>& x, const std::string& name, std::size_t in) {
    const auto& w = p.at(name + ".weight");
    return oracle::linear(x, w, p[name + ".bias"], w.size() / in, in);
  };
  const auto norm = [&](const oracle::Values<Complex>& x, const std::string& name) {
    const auto& gain = p.at(name + ".gain");
    return c.norm == NormKind::rms ? oracle::rms_norm(x, gain, double(c.norm_eps))
                                   : oracle::layer_norm(x, gain, p[name + ".bias"], double(c.norm_eps));
  };
  const bool turned = c.positions == Positions::rope;
  const RopeAngles angles = rope_angles(rope_frequencies(c.rope, c.head_channels()), 0, tokens.time);
  auto x = oracle::embedding(tokens.inputs, T, p.at("tokens.weight"), p["positions.weight"], C);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string block = block_name(i), attention = block + ".attn";
    auto qkv = linear(norm(x, block + ".norm1"), attention + ".qkv", C);
    if (turned)
      qkv = oracle::rotary(qkv, H, G, T, 0, angles.cos, angles.sin, p[attention + ".q_norm.gain"],
                           p[attention + ".k_norm.gain"], double(c.norm_eps), D);
    const AttentionShape shape{tokens.batch, tokens.time, c.heads, c.head_channels(), c.key_heads()};
    x = oracle::add(x, linear(oracle::attention(qkv, shape), attention + ".out", H * D));
    const auto normed = norm(x, block + ".norm2");
    const auto hidden = c.mlp == MlpKind::swiglu
                            ? oracle::swiglu(linear(normed, block + ".mlp.gate_up", C), F)
                            : oracle::gelu(linear(normed, block + ".mlp.up", C), c.gelu);
    x = oracle::add(x, linear(hidden, block + ".mlp.down", F));
  }
  const auto& head = p.at(c.tied_head ? "tokens.weight" : "head.weight");
  const auto logits = oracle::linear(norm(x, "norm"), head, {}, std::size_t(c.vocabulary), C);
  return oracle::cross_entropy(logits, tokens.targets);
}

// Norm-wise error of a gradient in f32, relative to the norm of its tensor. A path from the loss to a
// parameter goes through 30 ops or less, forward and backward, each of which rounds sums of at most 40
// products: 60 * 41 roundings, none of them magnified by more than its norm's rstd, for which tests below
// start from deviations near 1 / sqrt(C).
constexpr double roundings = 2500;

/// Parameters of ordinary size: GPT-2's start would leave attention nearly uniform and gradients small.
void enlarge(Gpt& model) {
  unsigned seed = 100;
  for (Parameter* p : model.parameters()) {
    const float deviation = p->name.ends_with(".weight") ? 0.2f : 0.5f;
    std::vector<float> values = normals(p->value.count(), ++seed, deviation);
    if (p->name.ends_with(".gain"))
      for (float& v : values) v += 1;
    device().upload(p->value, values.data());
  }
}

struct Variant {
  const char* name;
  ModelConfig config;
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

ModelConfig changed(const auto& change) {
  ModelConfig c = tiny;
  change(c);
  return c;
}
ModelConfig llama(const auto& change) {
  return changed([&](ModelConfig& c) {
    c.norm = NormKind::rms, c.positions = Positions::rope, c.mlp = MlpKind::swiglu, c.bias = false;
    change(c);
  });
}

const Variant variants[] = {
    {"tied_bias_tanh", tiny},
    {"untied_plain_erf", changed([](ModelConfig& c) { c.tied_head = c.bias = false, c.gelu = Gelu::erf; })},
    {"llama_grouped_untied",
     llama([](ModelConfig& c) { c.heads = 4, c.kv_heads = 2, c.tied_head = false, c.rope.theta = 500000; })},
    {"llama_qk_norm_tied_wide_heads", llama([](ModelConfig& c) {
       c.kv_heads = 1, c.head_width = 10, c.qk_norm = true;
       c.rope = {.scaling = RopeScaling::llama3, .factor = 8, .low = 1, .high = 4, .original = 32};
     })},
    {"layer_norm_rope_gelu_qkv_bias",
     changed([](ModelConfig& c) { c.positions = Positions::rope, c.bias = false, c.qkv_bias = true; })},
    {"rms_norm_learned_swiglu_bias",
     changed([](ModelConfig& c) { c.norm = NormKind::rms, c.mlp = MlpKind::swiglu; })}};

class GptGradient : public testing::TestWithParam<Variant> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
};
INSTANTIATE_TEST_SUITE_P(Variants, GptGradient, testing::ValuesIn(variants),
                         testing::PrintToStringParamName());

TEST_P(GptGradient, MatchesTheOracleInEveryParameter) {
  const ModelConfig c = config();
  Gpt model(device(), c, uniform_plan(c), 1);
  enlarge(model);
  const Tokens tokens(c, 2, 5, 7);
  const double loss = pass(device(), model, tokens);
  Parameters p;
  for (const Parameter* parameter : model.parameters())
    p[parameter->name] = oracle::complex(download(device(), parameter->value));
  EXPECT_NEAR(loss, gpt_loss(c, p, tokens).real(), gamma(roundings) * loss);

  unsigned seed = 1;
  for (const Parameter* parameter : model.parameters()) {
    const std::vector<float> gradient = download(device(), parameter->grad);
    double norm = 0;
    for (float g : gradient) norm += double(g) * g;
    oracle::Values<Complex>& values = p[parameter->name];
    for (int trial = 0; trial < 4; ++trial) {
      const std::vector<float> direction = normals(parameter->value.count(), ++seed);
      double got = 0, length = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i].imag(oracle::step * direction[i]);
        got += double(gradient[i]) * direction[i];
        length += double(direction[i]) * direction[i];
      }
      const double want = gpt_loss(c, p, tokens).imag() / oracle::step;
      for (Complex& v : values) v.imag(0);
      EXPECT_NEAR(got, want, gamma(roundings) * std::sqrt(norm * length / double(values.size())))
          << parameter->name;
    }
  }
}

TEST(GptGradientAccumulation, OfMicroBatchesEqualsTheBigBatch) {
  Gpt model(device(), tiny, uniform_plan(tiny), 1);
  enlarge(model);
  const Tokens tokens(tiny, 6, 5, 7);
  const auto gradients = [&](std::int64_t micro_batches) {
    const std::int64_t each = tokens.batch / micro_batches;
    for (std::int64_t i = 0; i < micro_batches; ++i)
      pass(device(), model, tokens.part(i * each, each), Tape::Mode::training, {}, 1 / float(micro_batches));
    std::vector<std::vector<float>> all;
    for (Parameter* p : model.parameters()) {
      all.push_back(download(device(), p->grad));
      p->has_grad = false;
    }
    return all;
  };
  const auto whole = gradients(1);
  for (std::int64_t micro_batches : {2, 3, 6}) {
    const auto sum = gradients(micro_batches);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      double difference = 0, norm = 0;
      for (std::size_t j = 0; j < whole[i].size(); ++j) {
        difference += std::pow(double(sum[i][j]) - whole[i][j], 2);
        norm += std::pow(double(whole[i][j]), 2);
      }
      // Both are within the bound of the exact gradient.
      EXPECT_LE(std::sqrt(difference), 2 * gamma(roundings) * std::sqrt(norm))
          << model.parameters()[i]->name << ", " << micro_batches << " micro-batches";
    }
  }
}

}  // namespace
}  // namespace mxtape
