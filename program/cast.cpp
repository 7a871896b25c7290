#include "program/cast.h"

#include "kernels/attention/slots.h"

namespace mxtape {
namespace {

bool names_a_recipe(const std::string& word) {
  return word.find('/') != std::string::npos || word.ends_with(".toml");
}
bool names_a_format(const std::string& word) { return word != "recipe" && !names_a_recipe(word); }

void set_all(PrecisionConfig& precision, std::vector<std::string> slots, const std::string& format) {
  precision.rules.push_back({.slots = std::move(slots), .format = format, .where = "--precision"});
}

void set_f32_activations(Recipe& recipe) {
  set_all(recipe.precision, {"fprop.x", "out"}, "f32");
  if (!attention_layer_names(recipe.model).empty()) {
    std::vector<std::string> slots;
    for (const auto& slot : attention_slots) slots.emplace_back(slot.name);
    slots.emplace_back(score_slot.name);
    set_all(recipe.precision, std::move(slots), "f32");
  }
  recipe.compute.activations = ActivationType::f32;
}

}  // namespace

double Cast::bits_per_element() const {
  return names_a_format(precision) ? parse_quantizer(precision).bits_per_element() : 0;
}

bool Cast::is_f32() const { return names_a_format(precision) && parse_quantizer(precision).is_identity(); }

Recipe cast_recipe(const Recipe& trained, std::int64_t step, const Cast& cast) {
  Recipe recipe = trained;
  // Nothing is trained with it, and a packed model multiplies unpacked values.
  recipe.train.on_divergence = OnDivergence::stop;
  if (cast.precision != "recipe") {
    recipe.precision = {};
    recipe.compute.activations = ActivationType::f32;
    recipe.compute.attention = AttentionKernels::own;
    recipe.compute.gemm = GemmChoice::library;  // sources, if it has any, want values
  }
  if (names_a_recipe(cast.precision)) {
    const Recipe other = read_recipe_onto(recipe, cast.precision, {});
    recipe.precision = other.precision;
    recipe.compute.activations = other.compute.activations;
  } else if (names_a_format(cast.precision)) {
    set_all(recipe.precision, {"fprop.w", "fprop.x"}, to_text(parse_quantizer(cast.precision)));
  }
  recipe.precision.rules = rules_at(recipe, step);
  recipe.precision.phases.clear();
  if (cast.weights_only) set_f32_activations(recipe);
  if (cast.precision != "recipe" || cast.weights_only)
    recipe.compute.attention = AttentionKernels::own;  // cuDNN's is for one precision
  std::erase_if(recipe.origins, [](const auto& origin) {
    return origin.first.starts_with("precision.") || origin.first == "compute.activations" ||
           origin.first == "compute.attention" || origin.first == "compute.gemm" ||
           origin.first == "train.on_divergence";
  });
  return recipe;
}

PrecisionPlan cast_plan(const Recipe& recipe, std::int64_t step, const Cast& cast) {
  return precision_plan(cast_recipe(recipe, step, cast), step);
}

}  // namespace mxtape
