#include "interop/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "interop/hf_names.h"
#include "kernels/calls_rows.h"
#include "nn/model.h"

namespace mxtape {
namespace {

using nlohmann::json;

json llama() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 40},
          {"intermediate_size", 72},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"max_position_embeddings", 96},
          {"rms_norm_eps", 1e-6},
          {"hidden_act", "silu"},
          {"vocab_size", 131},
          {"tie_word_embeddings", false},
          {"rope_theta", 500000.0}};
}
json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 48},      {"n_layer", 2},
          {"n_head", 4},          {"n_positions", 32}, {"vocab_size", 211}};
}

std::string refusal(const json& config, std::optional<std::int64_t> context = {}) {
  try {
    (void)read_hf_config(config, "config.json", context);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}
json with(json config, const char* key, json value) {
  config[key] = std::move(value);
  return config;
}

TEST(HfConfig, Gpt2sDefaultsAreThoseOfItsClass) {
  const HfConfig config = read_hf_config(gpt2(), "config.json");
  EXPECT_EQ(config.model.architecture, "gpt2");
  EXPECT_TRUE(config.model.tied);
  EXPECT_TRUE(config.model.bias);
  EXPECT_EQ(config.model.gelu, Gelu::tanh);
  EXPECT_EQ(config.model.mlp_width, 192);
  EXPECT_EQ(config.model.norm_eps, 1e-5);
  EXPECT_EQ(config.context, 32);
  EXPECT_TRUE(config.unread.empty());
  EXPECT_EQ(read_hf_config(with(gpt2(), "activation_function", "gelu"), "x").model.gelu, Gelu::erf);
  EXPECT_EQ(read_hf_config(gpt2(), "config.json", 8).context, 8);
  EXPECT_NE(refusal(gpt2(), 33).find("--context 33"), std::string::npos);
}

TEST(HfConfig, UnknownKeysAreListedAndDropoutsNoted) {
  const HfConfig config = read_hf_config(with(with(gpt2(), "frobnicate", 1), "attn_pdrop", 0.1), "x");
  EXPECT_EQ(config.unread, std::vector<std::string>{"frobnicate"});
  ASSERT_EQ(config.notes.size(), 1u);
  EXPECT_EQ(config.notes[0],
            "attn_pdrop = 0.1 is not kept: model.attention_dropout = 0; a recipe may set it");
  EXPECT_EQ(read_hf_config(with(gpt2(), "resid_pdrop", 0.1), "x").notes[0],
            "resid_pdrop = 0.1 is not kept: model.dropout = 0; a recipe may set it");
}

TEST(HfConfig, BothSpellingsOfRopeGiveTheSameModel) {
  const json scaling{{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 32}};
  const json four = with(llama(), "rope_scaling", scaling);
  json five = llama(), parameters = scaling;
  five.erase("rope_theta");
  parameters["rope_theta"] = 500000.0;
  five["rope_parameters"] = parameters;
  const ModelFacts a = read_hf_config(four, "x").model;
  EXPECT_EQ(a, read_hf_config(five, "x").model);
  EXPECT_EQ(a, read_hf_config(with(five, "rope_theta", 500000.0), "x").model) << "equal twice";
  json old = scaling;
  old["type"] = old["rope_type"];
  old.erase("rope_type");
  EXPECT_EQ(a, read_hf_config(with(llama(), "rope_scaling", old), "x").model);
  EXPECT_EQ(a.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(a.rope_factor, 8);
  EXPECT_EQ(a.rope_original, 32);
  EXPECT_EQ(a.rope_theta, 500000);
  EXPECT_NE(refusal(with(five, "rope_theta", 77777.0)).find("differ from rope_parameters"),
            std::string::npos);
  EXPECT_NE(
      refusal(with(five, "rope_scaling", json{{"rope_type", "linear"}, {"factor", 2.0}})).find("differ"),
      std::string::npos);
}

TEST(HfConfig, TheFamilyOfLlamaDiffersInBiasesNormsAndWindows) {
  const auto of = [](const char* type, const char* name) {
    return with(with(llama(), "model_type", type), "architectures", json::array({name}));
  };
  const ModelFacts plain = read_hf_config(llama(), "x").model;
  EXPECT_FALSE(plain.bias || plain.qkv_bias || plain.qk_norm || plain.tied);
  EXPECT_EQ(plain.qkv_rows(), 128);
  EXPECT_TRUE(read_hf_config(of("qwen2", "Qwen2ForCausalLM"), "x").model.qkv_bias);
  EXPECT_TRUE(read_hf_config(of("qwen3", "Qwen3ForCausalLM"), "x").model.qk_norm);
  EXPECT_TRUE(read_hf_config(with(with(llama(), "attention_bias", true), "mlp_bias", true), "x").model.bias);
  EXPECT_NE(refusal(with(llama(), "attention_bias", true)), "");
  json mistral = of("mistral", "MistralForCausalLM");
  EXPECT_EQ(refusal(mistral), "");
  mistral["sliding_window"] = 64;
  EXPECT_NE(refusal(mistral).find("sliding_window = 64"), std::string::npos);
  EXPECT_EQ(refusal(mistral, 64), "") << "the context ends with the window";
  json long_one = mistral;
  long_one["max_position_embeddings"] = 8192;
  long_one.erase("sliding_window");
  EXPECT_NE(refusal(long_one, 5000), "") << "the class's own window of 4096";
  long_one["sliding_window"] = nullptr;
  EXPECT_EQ(refusal(long_one, 5000), "");
  const HfConfig cut = read_hf_config(long_one, "x");
  EXPECT_EQ(cut.context, default_rope_context);
  EXPECT_EQ(cut.notes.size(), 1u);
}

TEST(HfConfig, AModelHasNoMorePositionsThanItsWindow) {
  json mistral = with(with(llama(), "model_type", "mistral"), "architectures", {"MistralForCausalLM"});
  mistral["max_position_embeddings"] = 32768;
  mistral["sliding_window"] = 4096;
  const HfConfig config = read_hf_config(mistral, "x", 2048);
  EXPECT_EQ(config.model.positions, 4096);
  ASSERT_EQ(config.notes.size(), 1u);
  EXPECT_NE(config.notes[0].find("sliding_window = 4096"), std::string::npos);
  const json written = hf_config_of(config.model, "float32");
  EXPECT_EQ(written["max_position_embeddings"], 4096);
  EXPECT_EQ(written["sliding_window"], nullptr);
  mistral["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(read_hf_config(mistral, "x", 2048).model.positions, 4096) << "its class asks no layer";
  mistral.erase("layer_types");
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(read_hf_config(mistral, "x", 2048).model.positions, 32768);
  for (const auto& [type, name] :
       {std::pair{"qwen2", "Qwen2ForCausalLM"}, std::pair{"qwen3", "Qwen3ForCausalLM"}}) {
    json qwen = with(with(mistral, "model_type", type), "architectures", json::array({name}));
    qwen.erase("sliding_window");
    EXPECT_EQ(read_hf_config(qwen, "x").model.positions, 32768) << "no window is in use";
    qwen["use_sliding_window"] = true;
    EXPECT_EQ(read_hf_config(qwen, "x").model.positions, 4096) << "the class's own window";
    EXPECT_NE(refusal(qwen, 5000).find("--context 4096"), std::string::npos) << refusal(qwen, 5000);
    qwen["layer_types"] = {"full_attention", "full_attention"};
    EXPECT_EQ(read_hf_config(qwen, "x").model.positions, 32768);
  }
}

TEST(HfConfig, IdsAreFewAndFitThirtyTwoBits) {
  EXPECT_EQ(read_hf_config(with(gpt2(), "eos_token_id", {3, 5}), "x").model.eos,
            (std::vector<std::int64_t>{3, 5}));
  EXPECT_NE(
      refusal(with(gpt2(), "eos_token_id", std::vector<int>(20'000, 7))).find("a list of 20000 token ids"),
      std::string::npos);
  for (const json& bad : {json(std::uint64_t(-1)), json(std::int64_t{1} << 31), json(-2), json("a")})
    EXPECT_NE(refusal(with(gpt2(), "eos_token_id", bad)).find("want a whole number from -1 to"),
              std::string::npos)
        << bad;
}

TEST(HfConfig, AnIdThatNoTokenHasIsNotKept) {
  json config = with(gpt2(), "eos_token_id", {3, 99999999});
  config["bos_token_id"] = 211;
  config["pad_token_id"] = 210;
  const HfConfig read = read_hf_config(config, "x");
  EXPECT_EQ(read.model.eos, std::vector<std::int64_t>{3});
  EXPECT_EQ(read.model.bos, std::nullopt);
  EXPECT_EQ(read.model.pad, 210);
  EXPECT_EQ(read.notes, (std::vector<std::string>{"bos_token_id = 211 is not kept: vocab_size = 211",
                                                  "eos_token_id = 99999999 is not kept: vocab_size = 211"}));
}

TEST(HfConfig, WhatIsNotComputedIsRefusedByItsKey) {
  const std::vector<std::pair<json, std::string>> cases{
      {with(gpt2(), "activation_function", "relu"), "activation_function"},
      {with(gpt2(), "scale_attn_weights", false), "scale_attn_weights"},
      {with(gpt2(), "quantization_config", json::object()), "quantization_config"},
      {with(gpt2(), "architectures", {"GPT2ForSequenceClassification"}), "architectures"},
      {with(gpt2(), "model_type", "bert"), "model_type"},
      {with(gpt2(), "n_layer", "2"), "n_layer"},
      {with(gpt2(), "n_layer", 2.0), "n_layer"},
      {with(gpt2(), "n_embd", 1ull << 40), "n_embd"},
      {with(gpt2(), "n_head", 5), "n_head"},
      {with(gpt2(), "layer_norm_epsilon", 0), "layer_norm_epsilon"},
      {with(gpt2(), "layer_norm_epsilon", 1e-60), "layer_norm_epsilon"},
      {with(llama(), "rope_scaling", json{{"rope_type", "yarn"}, {"factor", 2.0}}), "rope_scaling.rope_type"},
      {with(llama(), "rope_scaling", json{{"rope_type", "linear"}}), "rope_scaling.factor"},
      {with(llama(), "rope_parameters", json{{"full_attention", json::object()}}), "full_attention"},
      {with(llama(), "partial_rotary_factor", 0.5), "partial_rotary_factor"},
      {with(llama(), "num_local_experts", 8), "num_local_experts"},
      {with(llama(), "head_dim", 15), "head_dim"},
      {with(llama(), "num_key_value_heads", 3), "num_key_value_heads"},
      {with(llama(), "rope_theta", -1.0), "rope_theta"}};
  for (const auto& [config, key] : cases)
    EXPECT_NE(refusal(config).find(key), std::string::npos) << config.dump();
  EXPECT_NE(refusal(json::array()), "");
}

TEST(HfConfig, WhatExportWritesReadsBackAsTheSameModel) {
  json scaled = with(llama(), "rope_scaling",
                     json{{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 32}});
  const auto of = [&](const char* type, const char* name) {
    return with(with(scaled, "model_type", type), "architectures", json::array({name}));
  };
  for (const json& config : {gpt2(), with(gpt2(), "n_inner", 56),
                             with(with(gpt2(), "activation_function", "gelu"), "tie_word_embeddings", false),
                             llama(), scaled, with(with(scaled, "attention_bias", true), "mlp_bias", true),
                             of("qwen2", "Qwen2ForCausalLM"), of("qwen3", "Qwen3ForCausalLM"),
                             with(of("mistral", "MistralForCausalLM"), "sliding_window", nullptr)}) {
    const ModelFacts model = read_hf_config(config, "x").model;
    const json written = hf_config_of(model, "float32");
    EXPECT_EQ(read_hf_config(written, "written").model, model) << written.dump();
    EXPECT_TRUE(read_hf_config(written, "written").unread.empty());
    EXPECT_TRUE(written.contains("bos_token_id") && written["bos_token_id"].is_null())
        << "GPT-2's class takes 50256 where the key is missing";
    EXPECT_EQ(written["torch_dtype"], written["dtype"]);
  }
}

TEST(HfNames, TheTableOfGpt2NamesEveryParameterOfTheModelInItsShape) {
  for (const bool tied : {true, false}) {
    const ModelFacts facts = read_hf_config(with(gpt2(), "tie_word_embeddings", tied), "x").model;
    std::int64_t numbers = 0;
    for (const TensorPlan& tensor : tensor_plan(facts)) numbers += tensor.shape.count();
    EXPECT_EQ(numbers, parameter_count(model_config_of(facts, facts.positions, "x")));
    EXPECT_EQ(facts_of(model_config_of(facts, facts.positions, "x")), facts);
  }
}

TEST(HfNames, PartsOfOneTensorStandOneBelowTheOther) {
  const ModelFacts facts = read_hf_config(llama(), "x").model;
  for (const TensorPlan& tensor : tensor_plan(facts)) {
    std::int64_t rows = 0;
    for (const TensorPart& part : tensor.parts) rows += part.vector ? part.cols : part.rows;
    EXPECT_EQ(rows, tensor.shape[0]) << tensor.ours;
    if (tensor.ours == "blocks.1.attn.qkv.weight") {
      ASSERT_EQ(tensor.parts.size(), 3u);
      EXPECT_EQ(tensor.parts[1].theirs, "model.layers.1.self_attn.k_proj.weight");
      EXPECT_EQ(tensor.parts[0].rows, 64);
      EXPECT_EQ(tensor.parts[1].rows, 32);
    }
  }
}

}  // namespace
}  // namespace mxtape
