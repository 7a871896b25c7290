#include "interop/hf_config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "data/json/json_section.h"
#include "data/safetensors/header.h"

namespace mxtape {
namespace {

using nlohmann::json;

// The ranges of the knobs that these become.
constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max(), most_layers = 1000,
                       most_heads = 1 << 16, most_width = 1 << 20, most_context = 1 << 24;

/// A model_type, the class that has a head for language, and what reads the rest.
struct Architecture {
  std::string_view type, language_class;
  void (*read)(JsonSection&, HfConfig&);
};

void read_activation(JsonSection& config, HfConfig& result) {
  constexpr std::array<std::string_view, 5> tanh_names{"gelu_new", "gelu_pytorch_tanh", "gelu_fast",
                                                       "gelu_accurate", "gelu_python_tanh"};
  const std::string name = config.text_or("activation_function", "gelu_new");
  if (std::find(tanh_names.begin(), tanh_names.end(), name) != tanh_names.end()) return;
  if (name != "gelu" && name != "gelu_python")
    config.refuse("activation_function",
                  "gelu_new, gelu_pytorch_tanh, gelu_fast, gelu_accurate, gelu_python_tanh "
                  "(the tanh form), gelu and gelu_python (the erf form)");
  result.model.gelu = Gelu::erf;
}

/// Dropouts that change no evaluation and are not kept.
void note_dropouts(JsonSection& config, HfConfig& result, std::initializer_list<const char*> keys) {
  for (const char* const key : keys) {
    const double probability = config.number_or(key, 0);
    if (probability > 0)
      result.notes.push_back(
          fmt::format("{0} = {1} is not kept: model.{2} = 0; a recipe may set it", key, probability,
                      std::string_view(key).starts_with("att") ? "attention_dropout" : "dropout"));
  }
}

void read_gpt2(JsonSection& config, HfConfig& result) {
  ModelFacts& m = result.model;
  m.width = config.integer("n_embd", 1, most_width);
  m.layers = config.integer("n_layer", 1, most_layers);
  m.heads = m.kv_heads = config.integer("n_head", 1, most_heads);
  require(m.width % m.heads == 0, ExitCode::data, "{} = {} does not divide n_embd = {}",
          config.path("n_head"), m.heads, m.width);
  m.head_width = m.width / m.heads;
  m.positions = config.integer("n_positions", 1, most_context);
  m.mlp_width = config.integer_or("n_inner", 1, most_context, 4 * m.width);
  m.norm_eps = config.positive_or("layer_norm_epsilon", 1e-5);
  m.tied = config.flag("tie_word_embeddings", true);
  read_activation(config, result);
  config.require_neutral("scale_attn_weights", true,
                         "scores are not divided by the root of the head's width");
  config.require_neutral("scale_attn_by_inverse_layer_idx", false,
                         "scores are divided by the layer's number");
  config.ignore({"reorder_and_upcast_attn", "n_ctx", "summary_type", "summary_use_proj", "summary_activation",
                 "summary_proj_to_labels", "summary_first_dropout"});
  note_dropouts(config, result, {"resid_pdrop", "embd_pdrop", "attn_pdrop"});
}

/// One spelling of RoPE's settings: of version 4, at the top and in rope_scaling, or of version 5,
/// rope_parameters.
struct Rope {
  double theta = 10000, factor = 1, low = 1, high = 4;
  std::string scaling = "none";
  std::int64_t original = 0;
  bool operator==(const Rope&) const = default;
};

void read_scaling(JsonSection& config, Rope& rope, HfConfig& result) {
  const std::string key = config.has("rope_type") || !config.has("type") ? "rope_type" : "type";
  if (key == "rope_type" && config.has("type") && config.text("type") != config.text("rope_type"))
    config.refuse("type", "one type: rope_type is " + config.text("rope_type"));
  const std::string type = config.text_or(key, "default");
  if (type != "default" && type != "linear" && type != "llama3")
    config.refuse(key, "default, linear, llama3");
  config.require_neutral("partial_rotary_factor", 1.0, "only a part of each head is rotated");
  config.ignore({"rope_theta"});
  if (type == "default") {
    config.ignore({"factor", "original_max_position_embeddings"});
  } else {
    rope.scaling = type;
    rope.factor = config.number("factor");
    if (!(rope.factor >= 1)) config.refuse("factor", "factors of 1 and more");
  }
  if (type == "llama3") {
    rope.low = config.number("low_freq_factor");
    rope.high = config.number("high_freq_factor");
    if (!(rope.low > 0)) config.refuse("low_freq_factor", "factors above 0");
    require(rope.high > rope.low, ExitCode::data, "{} = {} is not below high_freq_factor = {}",
            config.path("low_freq_factor"), rope.low, rope.high);
    rope.original = config.integer("original_max_position_embeddings", 1, most_context);
  } else {
    config.ignore({"original_max_position_embeddings"});
  }
  for (const auto& unknown : config.unknown()) result.unread.push_back("(RoPE) " + shown_name(unknown));
}

void read_rope(JsonSection& config, HfConfig& result) {
  Rope top, parameters;
  const bool has_top = config.has("rope_theta") || config.has("rope_scaling"),
             has_new = config.has("rope_parameters");
  top.theta = parameters.theta = config.positive_or("rope_theta", 10000);
  if (config.has("rope_scaling")) {
    JsonSection reader = config.section("rope_scaling");
    read_scaling(reader, top, result);
  }
  if (has_new) {
    const json& object = *config.find("rope_parameters");
    JsonSection reader = config.section("rope_parameters");
    for (const auto& [key, value] : object.items())
      if (value.is_object()) reader.refuse(key, "the same RoPE in all layers");
    parameters.theta = reader.positive_or("rope_theta", top.theta);
    read_scaling(reader, parameters, result);
    const bool scaled_twice = config.has("rope_scaling");
    require(!has_top || (top.theta == parameters.theta && (!scaled_twice || top == parameters)),
            ExitCode::data,
            "{} and rope_scaling differ from rope_parameters: theta {} and {}, scaling {} by {} "
            "and {} by {}; versions 4 and 5 of transformers would compute different things",
            config.path("rope_theta"), top.theta, parameters.theta, top.scaling, top.factor,
            parameters.scaling, parameters.factor);
  }
  const Rope& rope = has_new ? parameters : top;
  ModelFacts& m = result.model;
  m.rope_theta = rope.theta;
  m.rope_scaling = rope.scaling == "llama3"   ? RopeScaling::llama3
                   : rope.scaling == "linear" ? RopeScaling::linear
                                              : RopeScaling::none;
  m.rope_factor = rope.factor;
  m.rope_low = rope.low;
  m.rope_high = rope.high;
  m.rope_original = rope.original;
}

/// What Llama, Mistral and Qwen share.
void read_llama_style(JsonSection& config, HfConfig& result) {
  ModelFacts& m = result.model;
  m.width = config.integer("hidden_size", 1, most_width);
  m.mlp_width = config.integer("intermediate_size", 1, most_context);
  m.layers = config.integer("num_hidden_layers", 1, most_layers);
  m.heads = config.integer("num_attention_heads", 1, most_heads);
  m.kv_heads = config.integer_or("num_key_value_heads", 1, most_heads, m.heads);
  require(m.heads % m.kv_heads == 0, ExitCode::data, "{} = {} does not divide num_attention_heads = {}",
          config.path("num_key_value_heads"), m.kv_heads, m.heads);
  require(config.has("head_dim") || m.width % m.heads == 0, ExitCode::data,
          "{} = {} does not divide hidden_size = {}, and there is no head_dim",
          config.path("num_attention_heads"), m.heads, m.width);
  m.head_width = config.integer_or("head_dim", 1, most_width, m.width / m.heads);
  require(m.head_width % 2 == 0, ExitCode::data, "{} = {}; RoPE turns pairs, so want an even number",
          config.path("head_dim"), m.head_width);
  m.positions = config.integer("max_position_embeddings", 1, most_context);
  m.norm_eps = config.positive_or("rms_norm_eps", 1e-6);
  m.tied = config.flag("tie_word_embeddings", false);
  m.bias = false;
  const std::string activation = config.text_or("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") config.refuse("hidden_act", "silu, also called swish");
  config.require_neutral("partial_rotary_factor", 1.0, "only a part of each head is rotated");
  config.require_neutral("num_local_experts", 0, "a mixture of experts");
  config.require_neutral("num_experts", 0, "a mixture of experts");
  read_rope(config, result);
  config.ignore({"pretraining_tp", "max_window_layers"});
  note_dropouts(config, result, {"attention_dropout"});
}

/// Attention to the last tokens alone is refused where the context is longer than that. A context within the
/// window sees all tokens before, so the model has as many positions as its window: an export that said more
/// would have texts beyond the window attended to as a whole.
void read_window(JsonSection& config, HfConfig& result, bool in_use, bool by_layer = true) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  // The classes' own default where the key is missing; null is none.
  constexpr std::int64_t class_default = 4096;
  const std::int64_t window = config.integer_or(
      "sliding_window", 1, most, config.contains("sliding_window") ? most_context : class_default);
  bool some_layer = true;
  if (const json* const kinds = config.find("layer_types"); kinds && kinds->is_array() && by_layer)
    some_layer =
        std::any_of(kinds->begin(), kinds->end(), [](const json& kind) { return kind != "full_attention"; });
  if (!in_use || !some_layer) return;
  if (window < result.context)
    config.refuse(
        "sliding_window",
        fmt::format("attention to all tokens before; --context {} keeps within the window", window));
  if (window >= result.model.positions) return;
  result.notes.push_back(
      fmt::format("sliding_window = {}: of {} positions the model keeps as many; an export says so", window,
                  result.model.positions));
  result.model.positions = window;
}

void read_llama(JsonSection& config, HfConfig& result) {
  read_llama_style(config, result);
  const bool attention = config.flag("attention_bias", false), mlp = config.flag("mlp_bias", false);
  require(attention == mlp, ExitCode::data,
          "{} = {} and mlp_bias = {}; mxtape has biases in all linear "
          "layers, in none, or in q, k and v alone",
          config.path("attention_bias"), attention, mlp);
  result.model.bias = attention;
}
void read_mistral(JsonSection& config, HfConfig& result) {
  read_llama_style(config, result);
  read_window(config, result, true, false);  // its class does not look at layer_types
}
void read_qwen2(JsonSection& config, HfConfig& result) {
  read_llama_style(config, result);
  result.model.qkv_bias = true;
  read_window(config, result, config.flag("use_sliding_window", false));
}
void read_qwen3(JsonSection& config, HfConfig& result) {
  read_llama_style(config, result);
  result.model.qk_norm = true;
  config.require_neutral("attention_bias", false, "biases beside the norms of q and k");
  if (!config.has("head_dim")) result.model.head_width = 128;  // the class's own default
  read_window(config, result, config.flag("use_sliding_window", false));
}

constexpr Architecture architectures[] = {{"gpt2", "GPT2LMHeadModel", read_gpt2},
                                          {"llama", "LlamaForCausalLM", read_llama},
                                          {"mistral", "MistralForCausalLM", read_mistral},
                                          {"qwen2", "Qwen2ForCausalLM", read_qwen2},
                                          {"qwen3", "Qwen3ForCausalLM", read_qwen3}};

const Architecture& architecture_of(JsonSection& config) {
  const std::string type = config.text("model_type");
  const Architecture* const found = std::ranges::find(architectures, type, &Architecture::type);
  if (found == std::end(architectures)) {
    std::string known;
    for (const Architecture& row : architectures) known.append(known.empty() ? "" : ", ").append(row.type);
    config.refuse("model_type", known);
  }
  const json* const classes = config.find("architectures");
  if (classes && !classes->empty() &&
      (!classes->is_array() || std::ranges::find(*classes, json(found->language_class)) == classes->end()))
    config.refuse("architectures", std::string(found->language_class));
  return *found;
}

std::int64_t context_of(const ModelFacts& model, const std::string& where,
                        std::optional<std::int64_t> asked) {
  require(!asked || (*asked >= 1 && *asked <= model.positions), ExitCode::usage,
          "--context {}: {} says that the model knows {} positions; want 1 to {}", asked.value_or(0), where,
          model.positions, model.positions);
  if (asked) return *asked;
  return model.is_llama_style() ? std::min(model.positions, default_rope_context) : model.positions;
}

/// A token id or a list of some; empty if there is none, and -1 is none. Without ids that no token of the
/// model has, as GPT-2's in the config of a smaller vocabulary.
std::vector<std::int64_t> known_ids(JsonSection& config, HfConfig& result, const std::string& key) {
  const json* const found = config.find(key);
  if (!found) return {};
  constexpr std::size_t most = 1024;  // known models list a handful
  const json list = found->is_array() ? *found : json::array({*found});
  require(list.size() <= most, ExitCode::data, "{} is a list of {} token ids; want at most {}",
          config.path(key), list.size(), most);
  std::vector<std::int64_t> ids;
  for (const json& one : list) {
    const auto id = JsonSection::integer_of(one, config.path(key), -1);
    if (id >= 0 && id < result.model.vocabulary) ids.push_back(id);
    if (id >= result.model.vocabulary)
      result.notes.push_back(
          fmt::format("{} = {} is not kept: vocab_size = {}", key, id, result.model.vocabulary));
  }
  return ids;
}

}  // namespace

std::string_view language_class_of(std::string_view type) {
  return std::ranges::find(architectures, type, &Architecture::type)->language_class;
}

HfConfig read_hf_config(const json& object, const std::string& where, std::optional<std::int64_t> context) {
  JsonSection config(object, where, ": ");
  HfConfig result;
  ModelFacts& m = result.model;
  const Architecture& architecture = architecture_of(config);
  m.architecture = architecture.type;
  m.vocabulary = config.integer("vocab_size", 1, most_tokens);
  config.require_neutral("add_cross_attention", false, "attention to another text");
  config.require_neutral("is_encoder_decoder", false, "an encoder");
  if (config.has("quantization_config"))
    config.refuse("quantization_config", "f32, f16 and bf16 weights; export in one of those");
  const char* const positions_key = m.is_llama_style() ? "max_position_embeddings" : "n_positions";
  m.positions = config.integer(positions_key, 1, most_context);
  result.context = context_of(m, where, context);
  architecture.read(config, result);
  if (!context && result.context < m.positions)
    result.notes.push_back(
        fmt::format("context {} of at most {}; --context N takes another", result.context, m.positions));
  const auto bos = known_ids(config, result, "bos_token_id"), pad = known_ids(config, result, "pad_token_id");
  if (!bos.empty()) m.bos = bos.front();
  if (!pad.empty()) m.pad = pad.front();
  m.eos = known_ids(config, result, "eos_token_id");
  config.ignore({"dtype", "torch_dtype", "transformers_version", "use_cache", "initializer_range",
                 "task_specific_params", "_name_or_path", "_attn_implementation_autoset",
                 "gradient_checkpointing", "output_past", "return_dict", "output_attentions",
                 "output_hidden_states", "layer_types", "use_sliding_window", "sliding_window",
                 "attention_bias", "mlp_bias"});
  for (const auto& key : config.unknown()) result.unread.push_back(shown_name(key));
  return result;
}

}  // namespace mxtape
