#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/slots.h"
#include "core/error.h"
#include "recipes/recipe.h"
#include "recipes/text/layer_patterns.h"

namespace mxtape {
namespace {

/// Writes a rule's value into the slots that it names, and notes which of its patterns named one.
class RuleWriter {
 public:
  explicit RuleWriter(const PrecisionRule& rule)
      : rule_(rule), patterns_(rule.slots), used_(std::max<std::size_t>(rule.slots.size(), 1), false) {
    if (patterns_.empty()) patterns_.push_back("*");
  }

  template <class Slots, class Target, class Value>
  void write(const Slots& slots, Target& target, const Value& value) {
    for (const auto& slot : slots) {
      known_.push_back(slot.name);
      for (std::size_t i = 0; i < patterns_.size(); ++i) {
        if (!matches_glob(patterns_[i], slot.name)) continue;
        used_[i] = true;
        target.*slot.field = value;
      }
    }
  }

  void finish() {
    std::sort(known_.begin(), known_.end());
    known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      require(used_[i], ExitCode::usage,
              "{}: no slot of these layers matches '{}' for format '{}'; slots: {}", rule_.where,
              patterns_[i], rule_.format, fmt::join(known_, " "));
  }

 private:
  const PrecisionRule& rule_;
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
  std::vector<std::string_view> known_;
};

void apply(const PrecisionRule& rule, PrecisionPlan& plan, const ModelConfig& model) {
  std::vector<std::string> names;
  for (const auto& layer : plan.attention) names.push_back(layer.first);
  for (const auto& layer : plan.linear) names.push_back(layer.first);
  RuleWriter writer(rule);
  const bool rotation = is_rotation_text(rule.format);
  for (const auto& name : matching_layers(rule.layers, names, model.layers, rule.where)) {
    const auto linear = plan.linear.find(name);
    if (linear != plan.linear.end() && rotation)
      writer.write(rotation_slots, linear->second, parse_rotation(rule.format));
    else if (linear != plan.linear.end())
      writer.write(linear_slots, linear->second, parse_quantizer(rule.format));
    else if (!rotation)
      writer.write(attention_slots, plan.attention.at(name), parse_quantizer(rule.format));
  }
  writer.finish();
}

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
  return plan;
}

}  // namespace

PrecisionPlan precision_plan(const Recipe& recipe, std::int64_t step) {
  PrecisionPlan plan = broad_plan(recipe.precision, recipe.model);
  plan.activations = recipe.compute.activations == ActivationType::bf16 ? DType::bf16 : DType::f32;
  for (const auto& rule : rules_at(recipe, step)) apply(rule, plan, recipe.model);
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
