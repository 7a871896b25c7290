#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/slots.h"
#include "kernels/narrow.h"
#include "recipes/recipe.h"
#include "recipes/rollbacks.h"
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

int packed_bits(const LinearQuant& quant, GemmKernels kernels, bool narrows) {
  const bool shared = quant.wgrad_source == OperandSource::shared;
  const Quantizer& q = shared ? quant.fprop_x : quant.wgrad_x;
  const Layout layout = gemm_layout(kernels, quant.wgrad_dy, quant.wgrad_x);
  const Layout kept = waiting_layout(q, shared ? Axis::row : Axis::column, layout, narrows);
  return kept == layout ? 0 : q.element.bits();
}

Kept kept_for(const PrecisionPlan& plan, const Recipe& recipe) {
  const ComputeConfig& compute = recipe.compute;
  const GemmKernels kernels = compute.gemm_kernels();
  constexpr std::int64_t large = (std::int64_t{16} << 20) / sizeof(float);
  const std::int64_t numbers = recipe.train.batch_size * recipe.model.context * recipe.model.hidden();
  bool packs = false;
  for (const auto& [name, quant] : plan.linear)
    packs |= compute.saved == Saved::automatic && numbers >= large && packed_bits(quant, kernels, true) > 0 &&
             gemm_layout(kernels, quant.wgrad_dy, quant.wgrad_x) == Layout::codes;
  const Recompute recompute = packs ? Recompute::norm_and_gelu : Recompute::none;
  const Saved saved = packs ? Saved::packed : compute.saved;
  const bool one_pass = compute.device == "cpu" && recipe.train.passes() == 1;
  return {saved, compute.recompute == Recompute::automatic ? recompute : compute.recompute,
          !(one_pass && saved == Saved::packed)};
}

std::int64_t phase_start(const Recipe& recipe, const PrecisionPhase& phase) {
  const TrainConfig& train = recipe.train;
  const auto rounded_up = [](double steps) { return std::int64_t(std::ceil(steps)); };
  if (phase.start_tokens > 0) {
    const std::int64_t tokens = recipe.tokens_per_step();
    return (phase.start_tokens + tokens - 1) / tokens;
  }
  // 0.82f x 100 is 81.99999928: a hair below a whole step is that step.
  if (phase.start_fraction > 0)
    return rounded_up(double(train.steps) * (double(phase.start_fraction) - 0x1p-24));
  if (phase.start_rollback > 0) {
    const auto were = rollbacks(recipe);
    const bool came = phase.start_rollback <= std::int64_t(were.size());
    return came ? were[std::size_t(phase.start_rollback - 1)].to : never;
  }
  return phase.start_of_decay ? first_decaying_step(recipe.schedule, train.steps) : phase.start;
}

std::vector<TimedRule> timed_rules(const Recipe& recipe) {
  std::vector<TimedRule> timed;
  auto add = [&, number = std::size_t(0)](const std::vector<PrecisionRule>& rules,
                                          std::int64_t start) mutable {
    for (const auto& rule : rules) timed.push_back({start, number++, &rule});
  };
  add(recipe.precision.rules, 0);
  for (const auto& phase : recipe.precision.phases) add(phase.rules, phase_start(recipe, phase));
  std::erase_if(timed, [](const TimedRule& one) { return one.start == never; });
  std::ranges::stable_sort(timed, {}, &TimedRule::start);
  return timed;
}

std::span<const TimedRule> until(std::span<const TimedRule> timed, std::int64_t step) {
  return {timed.begin(), std::ranges::upper_bound(timed, step, {}, &TimedRule::start)};
}

std::vector<PrecisionRule> rules_at(const Recipe& recipe, std::int64_t step) {
  std::vector<PrecisionRule> rules;
  const auto timed = timed_rules(recipe);
  for (const TimedRule& one : until(timed, step)) rules.push_back(*one.rule);
  return rules;
}

std::vector<std::int64_t> plan_changes(const Recipe& recipe) {
  std::set<std::int64_t> steps{0};
  for (const auto& phase : recipe.precision.phases) steps.insert(phase_start(recipe, phase));
  steps.erase(never);
  return {steps.begin(), steps.end()};
}

}  // namespace mxtape
