#include "recipes/text/reader.h"

#include "core/error.h"
#include "recipes/knobs.h"

namespace mxtape {
namespace {

/// Extents in full: 0 may stand for what another recipe spells out.
ModelConfig spelled_out(ModelConfig model) {
  model.mlp_width = model.hidden();
  model.kv_heads = model.key_heads();
  model.head_width = model.head_channels();
  return model;
}

/// Whether another value of this key leaves the weights what they are.
bool may_differ(std::string_view key, const ModelConfig& here, const ModelConfig& there) {
  const bool larger = here.vocabulary > there.vocabulary;
  if (key == "model.dropout" || key == "model.attention_dropout") return true;
  if (key == "model.context") return here.context < there.context || there.positions == Positions::rope;
  return (key == "model.vocabulary" || key == "model.init_deviation") && larger;
}

}  // namespace

void take_model(Recipe& recipe, const ModelConfig& there) {
  ModelConfig wanted = there, unset;
  const auto own = model_knobs(recipe.model), theirs = model_knobs(wanted), initial = model_knobs(unset);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string key(own[i].name);
    const bool from_data = key == "model.vocabulary" && recipe.model.vocabulary == 0;
    if (recipe.origins.contains(key) && !from_data) continue;
    copy_value(own[i], theirs[i]);
    if (value_text(own[i]) != value_text(initial[i])) recipe.origins[key] = "train.init";
  }
  ModelConfig here = spelled_out(recipe.model);
  wanted = spelled_out(there);
  std::string refused;
  const auto ours = model_knobs(here);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string is = value_text(ours[i]), was = value_text(theirs[i]);
    if (is != was && !may_differ(ours[i].name, here, there))
      refused += fmt::format("\n  {}: {} -> {}  ({})", ours[i].name, was, is, recipe.origin(ours[i].name));
  }
  require(refused.empty(), ExitCode::usage,
          "train.init = \"{}\": the weights there are another model's:{}\n"
          "leave these keys out; model.context may be shorter (with RoPE any), model.vocabulary larger, "
          "dropouts anything",
          recipe.train.init, refused);
}

}  // namespace mxtape
