#include "recipes/rollbacks.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "core/error.h"

namespace mxtape {
namespace {

constexpr std::string_view arrow = " -> ", same = " same batches";

/// Reads a step and removes it from the front of `text`; -1 if there is none.
std::int64_t take_step(std::string_view& text) {
  std::int64_t step = -1;
  const char* const end = std::from_chars(text.data(), text.data() + text.size(), step).ptr;
  text.remove_prefix(std::size_t(end - text.data()));
  return step;
}

}  // namespace

std::string Rollback::text() const {
  return fmt::format("{}{}{}{}", from, arrow, to, same_batches ? same : "");
}

std::vector<Rollback> rollbacks(const Recipe& recipe) {
  std::vector<Rollback> all;
  for (const std::string& text : recipe.train.rollbacks) {
    std::string_view rest = text;
    Rollback one{.from = take_step(rest), .to = -1, .same_batches = false};
    if (rest.starts_with(arrow))
      rest.remove_prefix(arrow.size()), one.to = take_step(rest), one.same_batches = rest == same;
    require(one.to >= 0 && one.from >= one.to + !one.same_batches && (rest.empty() || one.same_batches),
            ExitCode::usage,
            "{}: train.rollbacks: '{}' is no rollback; want what a run writes there, such as '512{}400'",
            recipe.origin("train.rollbacks"), text, arrow);
    all.push_back(one);
  }
  return all;
}

std::int64_t steps_passed_over(const Recipe& recipe, std::int64_t step) {
  std::int64_t steps = 0;
  for (const Rollback& one : rollbacks(recipe))
    if (one.to <= step && !one.same_batches) steps += one.from - one.to;
  return steps;
}

Recipe as_rolled_back(Recipe recipe, std::int64_t times, std::int64_t step) {
  recipe.train.rollbacks.assign(std::size_t(times), Rollback{step + 1, step, true}.text());
  return recipe;
}

std::vector<std::int64_t> coming_rollbacks(const Recipe& recipe) {
  std::set<std::int64_t> numbers;
  for (const PrecisionPhase& phase : recipe.precision.phases)
    if (phase.start_rollback > std::int64_t(recipe.train.rollbacks.size()))
      numbers.insert(phase.start_rollback);
  return {numbers.begin(), numbers.end()};
}

std::vector<PossiblePhase> possible_phases(const Recipe& recipe) {
  std::vector<PossiblePhase> phases;
  const auto add = [&](const Recipe& course, std::int64_t first, std::int64_t rollback) {
    for (const std::int64_t step : plan_changes(course))
      if (step >= first) phases.push_back({course, step, rollback});
  };
  add(recipe, 0, 0);
  for (const std::int64_t n : coming_rollbacks(recipe))
    for (const std::int64_t to : plan_changes(recipe)) add(as_rolled_back(recipe, n, to), to, n);
  return phases;
}

void validate_rollbacks(const Recipe& recipe) {
  (void)rollbacks(recipe);
  const TrainConfig& train = recipe.train;
  const bool goes_back = train.on_divergence == OnDivergence::rollback;
  const auto begun = coming_rollbacks(recipe);
  const auto were = std::int64_t(train.rollbacks.size());
  const std::int64_t most = goes_back ? std::max(were, train.rollback_most) : were;
  if (!begun.empty() && begun.back() > most && recipe.precision.switch_error == 0)
    fail(ExitCode::usage, "recipe {}: a precision phase starts at rollback {}, which never comes: {}",
         recipe.name, begun.back(),
         goes_back ? fmt::format("train.rollback_most = {}", train.rollback_most)
                   : "train.on_divergence is not rollback");
  if (!goes_back || train.rollback_skip) return;
  for (std::int64_t n = were + 1; n <= most; ++n)
    require(std::ranges::binary_search(begun, n), ExitCode::usage,
            "recipe {}: rollback {} of train.rollback_most = {} would change nothing, and the same step "
            "would diverge again; want train.rollback_skip = true, or a [[precision.phases]] with "
            "start_rollback = {}, or a lower train.rollback_most",
            recipe.name, n, train.rollback_most, n);
}

}  // namespace mxtape
