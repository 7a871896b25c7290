#include "autograd/slots.h"
#include "recipes/recipe.h"
#include "recipes/text/slot_rules.h"

namespace mxtape {
namespace {

PrecisionPlan broad_plan(const PrecisionConfig& precision, const ModelConfig& model) {
  const Quantizer weights = parse_quantizer(precision.weights),
                  activations = parse_quantizer(precision.activations),
                  gradients = parse_quantizer(precision.gradients), head = parse_quantizer(precision.head),
                  attention = parse_quantizer(precision.attention);
  PrecisionPlan plan;
  for (const auto& name : linear_layer_names(model)) {
    LinearQuant& q = plan.linear[name];
    const bool in_block = name != "head";
    if (in_block || !model.tied_head) plan.sums[name] = {};
    q.fprop_w = q.dgrad_w = in_block ? weights : head;
    q.fprop_x = q.wgrad_x = in_block ? activations : head;
    q.dgrad_dy = q.wgrad_dy = in_block ? gradients : head;
  }
  for (const auto& name : attention_layer_names(model))
    for (const auto& slot : attention_slots) plan.attention[name].*slot.field = attention;
  for (const auto& name : parameter_layer_names(model)) plan.parameters[name] = {};
  if (plan.parameters.contains("embedding")) plan.sums["embedding"] = {};
  return plan;
}

}  // namespace

PrecisionPlan precision_plan(const Recipe& recipe, std::int64_t step) {
  PrecisionPlan plan = broad_plan(recipe.precision, recipe.model);
  plan.activations = recipe.compute.activations == ActivationType::bf16 ? DType::bf16 : DType::f32;
  const auto rules = timed_rules(recipe);
  apply_rules(until(rules, step), plan, recipe.model);
  settle(plan);
  return plan;
}

}  // namespace mxtape
