#include <nlohmann/json.hpp>

#include "interop/hf_config.h"

namespace mxtape {
namespace {

using Json = nlohmann::ordered_json;

void add_gpt2(Json& json, const ModelFacts& m) {
  json["n_positions"] = m.positions;
  json["n_ctx"] = m.positions;
  json["n_embd"] = m.width;
  json["n_layer"] = m.layers;
  json["n_head"] = m.heads;
  json["n_inner"] = m.mlp_width == 4 * m.width ? Json(nullptr) : Json(m.mlp_width);
  json["activation_function"] = m.gelu == Gelu::tanh ? "gelu_new" : "gelu";
  json["layer_norm_epsilon"] = m.norm_eps;
  for (const char* const key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = 0.0;
}

void add_llama_style(Json& json, const ModelFacts& m) {
  json["hidden_size"] = m.width;
  json["intermediate_size"] = m.mlp_width;
  json["num_hidden_layers"] = m.layers;
  json["num_attention_heads"] = m.heads;
  json["num_key_value_heads"] = m.kv_heads;
  json["head_dim"] = m.head_width;
  json["max_position_embeddings"] = m.positions;
  json["rms_norm_eps"] = m.norm_eps;
  json["hidden_act"] = "silu";
  if (m.architecture == "llama" || m.architecture == "qwen3") json["attention_bias"] = m.bias;
  if (m.architecture == "llama") json["mlp_bias"] = m.bias;
  json["attention_dropout"] = 0.0;
  Json scaling = nullptr, parameters{{"rope_type", "default"}};
  if (m.rope_scaling != RopeScaling::none) {
    const bool llama3 = m.rope_scaling == RopeScaling::llama3;
    scaling = {{"rope_type", llama3 ? "llama3" : "linear"}, {"factor", m.rope_factor}};
    if (llama3)
      scaling.update({{"low_freq_factor", m.rope_low},
                      {"high_freq_factor", m.rope_high},
                      {"original_max_position_embeddings", m.rope_original}});
    parameters = scaling;
  }
  parameters["rope_theta"] = m.rope_theta;
  json["rope_theta"] = m.rope_theta;
  json["rope_scaling"] = scaling;
  json["rope_parameters"] = parameters;
  if (m.architecture.starts_with("qwen")) json["use_sliding_window"] = false;
  if (m.architecture != "llama") json["sliding_window"] = nullptr;
}

}  // namespace

Json hf_config_of(const ModelFacts& m, const std::string& type) {
  Json json{{"architectures", {language_class_of(m.architecture)}},
            {"model_type", m.architecture},
            {"vocab_size", m.vocabulary}};
  m.is_llama_style() ? add_llama_style(json, m) : add_gpt2(json, m);
  json["initializer_range"] = 0.02;  // of transformers' own initialisation: no trained number
  json["tie_word_embeddings"] = m.tied;
  // GPT-2's class takes 50256 for both where they are missing.
  json["bos_token_id"] = m.bos ? Json(*m.bos) : Json(nullptr);
  json["eos_token_id"] = m.eos.empty()       ? Json(nullptr)
                         : m.eos.size() == 1 ? Json(m.eos.front())
                                             : Json(m.eos);
  json["pad_token_id"] = m.pad ? Json(*m.pad) : Json(nullptr);
  json["use_cache"] = true;
  json["torch_dtype"] = type;
  json["dtype"] = type;
  return json;
}

}  // namespace mxtape
