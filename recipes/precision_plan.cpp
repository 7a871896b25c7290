#include <algorithm>
#include <cmath>
#include <utility>

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
    q.fprop_w = q.dgrad_w = in_block ? weights : head;
    q.fprop_x = q.wgrad_x = in_block ? activations : head;
    q.dgrad_dy = q.wgrad_dy = in_block ? gradients : head;
  }
  for (const auto& name : attention_layer_names(model))
    for (const auto& slot : attention_slots) plan.attention[name].*slot.field = attention;
  for (const auto& name : parameter_layer_names(model)) plan.parameters[name] = {};
  return plan;
}

}  // namespace

PrecisionPlan precision_plan(const Recipe& recipe, std::int64_t step) {
  PrecisionPlan plan = broad_plan(recipe.precision, recipe.model);
  plan.activations = recipe.compute.activations == ActivationType::bf16 ? DType::bf16 : DType::f32;
  for (const auto& rule : rules_at(recipe, step)) apply_rule(rule, plan, recipe.model);
  settle(plan);
  return plan;
}

std::int64_t phase_start(const Recipe& recipe, const PrecisionPhase& phase) {
  const TrainConfig& train = recipe.train;
  const auto rounded_up = [](double steps) { return std::int64_t(std::ceil(steps)); };
  if (phase.start_tokens > 0) {
    const std::int64_t tokens = train.batch_size * train.accumulation * recipe.model.context;
    return (phase.start_tokens + tokens - 1) / tokens;
  }
  // 0.82f x 100 is 81.99999928: a hair below a whole step is that step.
  if (phase.start_fraction > 0)
    return rounded_up(double(train.steps) * (double(phase.start_fraction) - 0x1p-24));
  return phase.start_of_decay ? first_decaying_step(recipe.schedule, train.steps) : phase.start;
}

std::vector<PrecisionRule> rules_at(const Recipe& recipe, std::int64_t step) {
  std::vector<PrecisionRule> rules = recipe.precision.rules;
  std::vector<std::pair<std::int64_t, const PrecisionPhase*>> started;
  for (const auto& phase : recipe.precision.phases)
    if (const std::int64_t start = phase_start(recipe, phase); start <= step)
      started.emplace_back(start, &phase);
  std::stable_sort(started.begin(), started.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (const auto& [start, phase] : started)
    rules.insert(rules.end(), phase->rules.begin(), phase->rules.end());
  return rules;
}

std::vector<std::int64_t> plan_changes(const Recipe& recipe) {
  std::vector<std::int64_t> steps{0};
  for (const auto& phase : recipe.precision.phases) steps.push_back(phase_start(recipe, phase));
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

}  // namespace mxtape
