#include "recipes/text/reach_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/slots.h"
#include "recipes/rollbacks.h"
#include "recipes/text/layer_patterns.h"
#include "recipes/text/rule_format.h"

namespace mxtape {
namespace {

bool quantizes(const Quantizer& q) { return !q.is_identity() && q != bf16_cast; }

/// A rule's number format; f32 for what sets no numbers.
Quantizer number_format(const std::string& text) {
  const SlotValue value = parse_rule_format(text);
  const auto* number = std::get_if<Quantizer>(&value);
  return number ? *number : f32_passthrough;
}

bool quantizes(const PrecisionPlan& plan) {
  const auto any = [](const auto& layers, const auto& slots) {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& layer) {
      return std::any_of(slots.begin(), slots.end(),
                         [&](const auto& slot) { return quantizes(layer.second.*slot.field); });
    });
  };
  const auto one = [](const auto& layer) { return quantizes(layer.second); };
  return any(plan.linear, linear_slots) || any(plan.linear, output_slots) ||
         any(plan.attention, attention_slots) ||
         std::any_of(plan.attention.begin(), plan.attention.end(),
                     [](const auto& layer) { return quantizes(layer.second.qk_s); }) ||
         std::any_of(plan.parameters.begin(), plan.parameters.end(), one) ||
         std::any_of(plan.sums.begin(), plan.sums.end(), one);
}

std::vector<PrecisionRule> all_rules(const Recipe& recipe) {
  std::vector<PrecisionRule> rules = recipe.precision.rules;
  for (const auto& phase : recipe.precision.phases)
    rules.insert(rules.end(), phase.rules.begin(), phase.rules.end());
  return rules;
}

}  // namespace

std::string nothing_quantized(const Recipe& recipe) {
  const PrecisionConfig& p = recipe.precision;
  std::string asked;
  for (const auto& rule : all_rules(recipe))
    if (quantizes(number_format(rule.format))) asked = fmt::format("{} asks for {}", rule.where, rule.format);
  for (const auto& [key, text] : {std::pair{"weights", &p.weights}, std::pair{"activations", &p.activations},
                                  std::pair{"gradients", &p.gradients}, std::pair{"attention", &p.attention},
                                  std::pair{"head", &p.head}})
    if (quantizes(parse_quantizer(*text))) asked = fmt::format("precision.{} is {}", key, *text);
  if (asked.empty()) return "";
  for (const std::int64_t step : plan_changes(recipe))
    if (quantizes(precision_plan(recipe, step))) return "";
  for (const std::int64_t n : coming_rollbacks(recipe))
    if (quantizes(precision_plan(as_rolled_back(recipe, n), 0))) return "";
  return fmt::format(
      "nothing is quantized: every operand of all {} blocks and of the head is f32 or bf16. {}, but rules "
      "take it back everywhere",
      recipe.model.layers, asked);
}

std::vector<std::string> notes_on_attention(const Recipe& recipe) {
  std::vector<std::string> notes;
  if (!parse_quantizer(recipe.precision.attention).is_identity()) return notes;
  const PrecisionPlan plan = precision_plan(recipe, 0);
  std::vector<std::string> names;
  for (const auto& layer : plan.attention) names.push_back(layer.first);
  for (const auto& layer : plan.linear) names.push_back(layer.first);
  const LayerNames layers(std::move(names), recipe.model.layers);
  for (const PrecisionRule& rule : all_rules(recipe)) {
    if (!rule.slots.empty() || rule.layers == "*" || number_format(rule.format).is_identity()) continue;
    const auto reached = layers.matching(rule.layers, rule.where);
    const auto attention = std::count_if(reached.begin(), reached.end(),
                                         [&](const auto& name) { return plan.attention.contains(name); });
    if (attention == 0 || attention == std::ssize(reached)) continue;  // or all that it names
    notes.push_back(fmt::format(
        "{}: this rule ('{}' for '{}') has no slots, so it reaches the twelve of attention as well, which "
        "precision.attention = f32 leaves as they are; slots = [\"fprop.*\", \"dgrad.*\", \"wgrad.*\"] keeps "
        "it to linear layers",
        rule.where, rule.format, rule.layers));
  }
  return notes;
}

}  // namespace mxtape
