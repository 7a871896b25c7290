#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/print.h"
#include "tests/support/safetensors.h"
#include "tests/support/tiny_gpt.h"

namespace mxtape {
namespace {

using namespace test;
using Json = nlohmann::json;

/// What a parameter of ours is called in transformers' files: tensors one below the other.
std::vector<std::string> their_names(const std::string& ours) {
  const std::map<std::string, std::vector<std::string>> of_model{
      {"tokens.weight", {"model.embed_tokens.weight"}},
      {"norm.gain", {"model.norm.weight"}},
      {"head.weight", {"lm_head.weight"}}};
  if (const auto found = of_model.find(ours); found != of_model.end()) return found->second;
  const std::map<std::string, std::vector<std::string>> of_block{
      {"norm1", {"input_layernorm"}},
      {"norm2", {"post_attention_layernorm"}},
      {"attn.qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
      {"attn.q_norm", {"self_attn.q_norm"}},
      {"attn.k_norm", {"self_attn.k_norm"}},
      {"attn.out", {"self_attn.o_proj"}},
      {"mlp.gate_up", {"mlp.gate_proj", "mlp.up_proj"}},
      {"mlp.down", {"mlp.down_proj"}}};
  const std::size_t layer = ours.find('.', 7), kind = ours.rfind('.');  // behind "blocks."
  std::vector<std::string> names = of_block.at(ours.substr(layer + 1, kind - layer - 1));
  for (std::string& name : names)
    name = "model.layers." + ours.substr(7, layer - 7) + "." + name +
           (ours.ends_with(".bias") ? ".bias" : ".weight");
  return names;
}

/// A model of transformers with random weights, and what it computes in double precision.
class LlamaReference : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = std::string(MXTAPE_SHARED "/interop/models/") + GetParam();
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
    weights.emplace(folder + "/model.safetensors");
    reference.emplace(folder + "/reference.safetensors");
    const Json theirs = Json::parse(std::ifstream(folder + "/config.json"));
    const Json rope = theirs.at("rope_parameters");
    config.vocabulary = theirs.at("vocab_size");
    config.layers = theirs.at("num_hidden_layers");
    config.heads = theirs.at("num_attention_heads");
    config.kv_heads = theirs.at("num_key_value_heads");
    config.width = theirs.at("hidden_size");
    config.head_width = theirs.value("head_dim", 0);
    config.mlp_width = theirs.at("intermediate_size");
    config.context = theirs.at("max_position_embeddings");
    config.norm_eps = theirs.at("rms_norm_eps");
    config.tied_head = theirs.at("tie_word_embeddings");
    config.bias = weights->has("model.layers.0.mlp.down_proj.bias");
    config.qkv_bias = weights->has("model.layers.0.self_attn.q_proj.bias");
    config.qk_norm = weights->has("model.layers.0.self_attn.q_norm.weight");
    config.norm = NormKind::rms, config.positions = Positions::rope, config.mlp = MlpKind::swiglu;
    config.rope.theta = rope.at("rope_theta");
    const std::string type = rope.at("rope_type");
    if (type == "default") return;
    config.rope.scaling = type == "linear" ? RopeScaling::linear : RopeScaling::llama3;
    config.rope.factor = rope.at("factor");
    config.rope.low = rope.value("low_freq_factor", 1.0f);
    config.rope.high = rope.value("high_freq_factor", 4.0f);
    config.rope.original = rope.value("original_max_position_embeddings", 0);
  }
  static std::vector<float> joined(const Safetensors& file, const std::string& ours,
                                   const std::string& prefix) {
    std::vector<float> all;
    for (const std::string& name : their_names(ours)) {
      const auto part = file.values<float>(prefix + name);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  ModelConfig config;
  std::optional<Safetensors> weights, reference;
};
INSTANTIATE_TEST_SUITE_P(Models, LlamaReference,
                         testing::Values("llama-gqa", "llama-mqa-tied-500k", "llama3-scaled", "qwen3-qknorm",
                                         "optional-llama-linear-rope", "optional-llama-biases",
                                         "optional-qwen2-qkvbias"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The smallest mistake that can be planted in these models, eps times ten, moves logits by 3.6e-5 of the
// largest, f32 arithmetic of transformers by 1.3e-6; gradients by 1.9e-6 of their norm.
constexpr double of_largest_logit = 1e-5, of_gradient_norm = 1e-5;

TEST_P(LlamaReference, LogitsLossAndEveryGradientAreTransformers) {
  Gpt model(device(), config, uniform_plan(config), 1);
  for (Parameter* p : model.parameters()) {
    const std::vector<float> values = joined(*weights, p->name, "");
    ASSERT_EQ(std::int64_t(values.size()), p->value.count()) << p->name;
    device().upload(p->value, values.data());
  }
  const auto shape = reference->shape("tokens");
  const std::int64_t B = shape[0], T = shape[1] - 1;
  const auto both = reference->values<std::int32_t>("tokens");
  Tokens tokens(config, B, T, 1);
  for (std::size_t r = 0; r < tokens.inputs.size(); ++r) {
    const std::size_t at = r / std::size_t(T) * std::size_t(T + 1) + r % std::size_t(T);
    tokens.inputs[r] = both[at], tokens.targets[r] = both[at + 1];
  }
  Tape tape(device(), Tape::Mode::evaluation);
  const auto logits = download(device(), model.forward(tape, upload(device(), {B, T}, tokens.inputs)).value);
  const auto want = reference->values<double>("logits_f64");
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  EXPECT_TRUE(within(logits, want, std::vector<double>(want.size(), of_largest_logit * largest)));

  const double loss = pass(device(), model, tokens);
  EXPECT_NEAR(loss, std::stod(reference->metadata("loss_f64")), of_largest_logit * largest);
  if (!reference->has("grad.model.norm.weight")) return;  // one has logits alone
  for (const Parameter* p : model.parameters()) {
    const auto got = download(device(), p->grad), gradient = joined(*reference, p->name, "grad.");
    double difference = 0, norm = 0;
    ASSERT_EQ(got.size(), gradient.size()) << p->name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(double(got[i]) - gradient[i], 2);
      norm += std::pow(double(gradient[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference), of_gradient_norm * std::sqrt(norm)) << p->name;
  }
}

}  // namespace
}  // namespace mxtape
