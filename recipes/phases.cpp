#include <algorithm>
#include <cmath>

#include "recipes/rollbacks.h"
#include "recipes/timed_rules.h"

namespace mxtape {

std::int64_t phase_start(const Recipe& recipe, const PrecisionPhase& phase) {
  const TrainConfig& train = recipe.train;
  const auto rounded_up = [](double steps) { return std::int64_t(std::ceil(steps)); };
  if (phase.start_tokens > 0) {
    const std::int64_t tokens = train.batch_size * train.passes() * recipe.model.context;
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
  std::vector<std::int64_t> steps{0};
  for (const auto& phase : recipe.precision.phases) steps.push_back(phase_start(recipe, phase));
  std::sort(steps.begin(), steps.end());
  std::erase(steps, never);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

}  // namespace mxtape
