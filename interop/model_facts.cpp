#include "interop/model_facts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/error.h"
#include "recipes/knobs.h"

namespace mxtape {
namespace {

/// The double with the fewest digits that rounds to x: 1e-05, not 9.999999747e-06.
double in_decimal(float x) { return std::stod(fmt::format("{}", x)); }

/// A recipe's [model] by the names of its knobs. A key that this program has not is the model's without it.
class ModelKeys {
 public:
  explicit ModelKeys(const ModelConfig& config) {
    recipe_.model = config;
    knobs_ = knobs(recipe_);
  }
  const ModelConfig& config() const { return recipe_.model; }

  const Knob* find(const std::string& key) const {
    const auto found = std::find_if(knobs_.begin(), knobs_.end(),
                                    [&](const Knob& knob) { return knob.name == "model." + key; });
    return found == knobs_.end() ? nullptr : &*found;
  }
  std::string word(const std::string& key, std::string otherwise) const {
    const Knob* const knob = find(key);
    if (!knob) return otherwise;
    if (const auto* const choice = std::get_if<Choice>(&knob->field))
      return std::string(choice->names[*choice->value]);
    return *std::get<std::string*>(knob->field);
  }
  std::int64_t integer(const std::string& key, std::int64_t otherwise) const {
    const Knob* const knob = find(key);
    return knob ? *std::get<std::int64_t*>(knob->field) : otherwise;
  }
  double number(const std::string& key, double otherwise) const {
    const Knob* const knob = find(key);
    return knob ? in_decimal(*std::get<float*>(knob->field)) : otherwise;
  }
  bool flag(const std::string& key) const {
    const Knob* const knob = find(key);
    return knob && *std::get<bool*>(knob->field);
  }

 private:
  Recipe recipe_;
  std::vector<Knob> knobs_;
};

std::string quoted(const std::string& text) { return "\"" + text + "\""; }
std::string yes_or_no(bool value) { return value ? "true" : "false"; }
std::string decimal(double value) {
  std::string text = fmt::format("{}", float(value));
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

/// Keys of [model] with their values as TOML; those that GPT-2's models leave at their default only where
/// they differ.
std::vector<std::pair<std::string, std::string>> keys_of(const ModelFacts& m, std::int64_t context) {
  std::vector<std::pair<std::string, std::string>> keys{{"vocabulary", fmt::format("{}", m.vocabulary)},
                                                        {"layers", fmt::format("{}", m.layers)},
                                                        {"heads", fmt::format("{}", m.heads)},
                                                        {"width", fmt::format("{}", m.width)},
                                                        {"context", fmt::format("{}", context)},
                                                        {"mlp_width", fmt::format("{}", m.mlp_width)},
                                                        {"bias", yes_or_no(m.bias)},
                                                        {"tied_head", yes_or_no(m.tied)},
                                                        {"norm_eps", decimal(m.norm_eps)}};
  if (!m.is_llama_style()) {
    keys.emplace_back("gelu", quoted(m.gelu == Gelu::tanh ? "tanh" : "erf"));
    return keys;
  }
  keys.insert(keys.end(), {{"norm", quoted("rms")},
                           {"positions", quoted("rope")},
                           {"mlp", quoted("swiglu")},
                           {"kv_heads", fmt::format("{}", m.kv_heads)},
                           {"head_width", fmt::format("{}", m.head_width)},
                           {"rope_theta", decimal(m.rope_theta)},
                           {"rope_scaling", quoted(m.rope_scaling)},
                           {"qk_norm", yes_or_no(m.qk_norm)},
                           {"qkv_bias", yes_or_no(m.qkv_bias)}});
  if (m.rope_scaling != "none") keys.emplace_back("rope_factor", decimal(m.rope_factor));
  if (m.rope_scaling == "llama3")
    keys.insert(keys.end(), {{"rope_low", decimal(m.rope_low)},
                             {"rope_high", decimal(m.rope_high)},
                             {"rope_original", fmt::format("{}", m.rope_original)}});
  return keys;
}

}  // namespace

std::string missing_keys(const ModelFacts& facts) {
  const ModelKeys known((ModelConfig()));
  std::string missing;
  for (const auto& [key, value] : keys_of(facts, 1))
    if (!known.find(key)) missing += fmt::format("{}model.{} = {}", missing.empty() ? "" : ", ", key, value);
  return missing;
}

ModelConfig model_config_of(const ModelFacts& facts, std::int64_t context, const std::string& where) {
  const std::string missing = missing_keys(facts);
  require(missing.empty(), ExitCode::data,
          "{}: a model of type '{}' needs {}; this version of mxtape computes no such model", where,
          facts.architecture, missing);
  std::string text = "[model]\n";
  for (const auto& [key, value] : keys_of(facts, context)) text += key + " = " + value + "\n";
  try {
    return recipe_from_toml(text, where).model;
  } catch (const Error& e) {  // whoever imports a folder has typed none of these keys
    fail(ExitCode::data, "{}: no model of mxtape's: {}", where, e.what());
  }
}

ModelFacts facts_of(const ModelConfig& config) {
  const ModelKeys keys(config);
  const std::string norm = keys.word("norm", "layer"), positions = keys.word("positions", "learned"),
                    mlp = keys.word("mlp", "gelu");
  const bool llama = norm == "rms" && positions == "rope" && mlp == "swiglu";
  const bool gpt2 = norm == "layer" && positions == "learned" && mlp == "gelu";
  require(config.kind == "gpt2", ExitCode::usage,
          "model.kind = \"{}\": no class of transformers computes it; "
          "--to safetensors writes its tensors under mxtape's names",
          config.kind);
  require(llama || gpt2, ExitCode::usage,
          "model.norm = \"{}\", model.positions = \"{}\", model.mlp = \"{}\": no class of transformers "
          "computes this "
          "mixture; --to safetensors writes its tensors under mxtape's names",
          norm, positions, mlp);
  ModelFacts facts{.architecture = "gpt2",
                   .vocabulary = config.vocabulary,
                   .layers = config.layers,
                   .heads = config.heads,
                   .kv_heads = config.heads,
                   .width = config.width,
                   .head_width = config.width / config.heads,
                   .mlp_width = config.hidden(),
                   .positions = config.context,
                   .tied = config.tied_head,
                   .bias = config.bias,
                   .gelu = config.gelu,
                   .norm_eps = in_decimal(config.norm_eps)};
  if (const auto kv_heads = keys.integer("kv_heads", 0)) facts.kv_heads = kv_heads;
  if (const auto head_width = keys.integer("head_width", 0)) facts.head_width = head_width;
  facts.qk_norm = keys.flag("qk_norm");
  facts.qkv_bias = keys.flag("qkv_bias");
  facts.rope_theta = keys.number("rope_theta", 10000);
  facts.rope_scaling = keys.word("rope_scaling", "none");
  facts.rope_factor = keys.number("rope_factor", 1);
  facts.rope_low = keys.number("rope_low", 1);
  facts.rope_high = keys.number("rope_high", 4);
  facts.rope_original = keys.integer("rope_original", 0);
  if (gpt2) {
    const bool plain = facts.kv_heads == facts.heads && facts.head_width * facts.heads == facts.width &&
                       !facts.qk_norm && !facts.qkv_bias;
    require(plain, ExitCode::usage,
            "model.kv_heads = {}, model.head_width = {}, model.qk_norm = {}, model.qkv_bias = {}: GPT-2's "
            "class has "
            "model.kv_heads = heads, head_width = width / heads and neither of the others; --to safetensors "
            "writes "
            "mxtape's names",
            facts.kv_heads, facts.head_width, facts.qk_norm, facts.qkv_bias);
    return facts;
  }
  require(!facts.qk_norm || (!facts.bias && !facts.qkv_bias), ExitCode::usage,
          "model.qk_norm with model.bias or model.qkv_bias: no class of transformers computes it; --to "
          "safetensors "
          "writes mxtape's names");
  require(!facts.qkv_bias || !facts.bias, ExitCode::usage,
          "model.qkv_bias beside model.bias says nothing more; want one");
  facts.architecture = facts.qk_norm ? "qwen3" : facts.qkv_bias ? "qwen2" : "llama";
  return facts;
}

}  // namespace mxtape
