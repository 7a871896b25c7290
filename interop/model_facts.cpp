#include "interop/model_facts.h"

#include "core/error.h"

namespace mxtape {
namespace {

/// The double with the fewest digits that rounds to x: 1e-05, not 9.999999747e-06.
double in_decimal(float x) { return std::stod(fmt::format("{}", x)); }

}  // namespace

ModelConfig model_config_of(const ModelFacts& m, std::int64_t context, const std::string& where) {
  Recipe recipe;
  recipe.name = "imported";  // any that a recipe may have
  ModelConfig& c = recipe.model;
  c.vocabulary = m.vocabulary, c.layers = m.layers, c.heads = m.heads, c.width = m.width;
  c.context = context, c.mlp_width = m.mlp_width, c.bias = m.bias, c.tied_head = m.tied;
  c.norm_eps = float(m.norm_eps);
  if (m.is_llama_style()) {
    c.norm = NormKind::rms, c.positions = Positions::rope, c.mlp = MlpKind::swiglu;
    c.kv_heads = m.kv_heads, c.head_width = m.head_width, c.qk_norm = m.qk_norm, c.qkv_bias = m.qkv_bias;
    c.rope.theta = float(m.rope_theta), c.rope.scaling = m.rope_scaling;
    if (m.rope_scaling != RopeScaling::none) c.rope.factor = float(m.rope_factor);
    if (m.rope_scaling == RopeScaling::llama3)
      c.rope.low = float(m.rope_low), c.rope.high = float(m.rope_high), c.rope.original = m.rope_original;
  } else {
    c.gelu = m.gelu;
  }
  try {
    return recipe_from_toml(to_toml(recipe), where).model;  // the keys' intervals, and validate()
  } catch (const Error& e) {  // whoever imports a folder has typed none of these keys
    fail(ExitCode::data, "{}: no model of mxtape's: {}", where, e.what());
  }
}

ModelFacts facts_of(const ModelConfig& config) {
  const bool llama =
      config.norm == NormKind::rms && config.positions == Positions::rope && config.mlp == MlpKind::swiglu;
  const bool gpt2 =
      config.norm == NormKind::layer && config.positions == Positions::learned && config.mlp == MlpKind::gelu;
  require(config.kind == "gpt2", ExitCode::usage,
          "model.kind = \"{}\": no class of transformers computes it; "
          "--to safetensors writes its tensors under mxtape's names",
          config.kind);
  require(llama || gpt2, ExitCode::usage,
          "model.norm = \"{}\", model.positions = \"{}\", model.mlp = \"{}\": no class of transformers "
          "computes this mixture; --to safetensors writes its tensors under mxtape's names",
          config.norm == NormKind::rms ? "rms" : "layer",
          config.positions == Positions::rope ? "rope" : "learned",
          config.mlp == MlpKind::swiglu ? "swiglu" : "gelu");
  ModelFacts facts{.architecture = "gpt2",
                   .vocabulary = config.vocabulary,
                   .layers = config.layers,
                   .heads = config.heads,
                   .kv_heads = config.key_heads(),
                   .width = config.width,
                   .head_width = config.head_channels(),
                   .mlp_width = config.hidden(),
                   .positions = config.context,
                   .tied = config.tied_head,
                   .bias = config.bias,
                   .qkv_bias = config.qkv_bias && !config.bias,
                   .qk_norm = config.qk_norm,
                   .gelu = config.gelu,
                   .norm_eps = in_decimal(config.norm_eps),
                   .rope_theta = in_decimal(config.rope.theta),
                   .rope_scaling = config.rope.scaling,
                   .rope_factor = in_decimal(config.rope.factor),
                   .rope_low = in_decimal(config.rope.low),
                   .rope_high = in_decimal(config.rope.high),
                   .rope_original = config.rope.original};
  if (gpt2) {
    const bool plain = facts.kv_heads == facts.heads && facts.head_width * facts.heads == facts.width &&
                       !facts.qk_norm && !facts.qkv_bias;
    require(plain, ExitCode::usage,
            "model.kv_heads = {}, model.head_width = {}, model.qk_norm = {}, model.qkv_bias = {}: GPT-2's "
            "class has model.kv_heads = heads, head_width = width / heads and neither of the others; --to "
            "safetensors writes mxtape's names",
            facts.kv_heads, facts.head_width, facts.qk_norm, facts.qkv_bias);
    return facts;
  }
  require(!facts.qk_norm || (!facts.bias && !facts.qkv_bias), ExitCode::usage,
          "model.qk_norm with model.bias or model.qkv_bias: no class of transformers computes it; --to "
          "safetensors writes mxtape's names");
  facts.architecture = facts.qk_norm ? "qwen3" : facts.qkv_bias ? "qwen2" : "llama";
  return facts;
}

}  // namespace mxtape
