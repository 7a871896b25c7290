#include "recipes/sweep/arm_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "recipes/knobs.h"
#include "recipes/rollbacks.h"
#include "recipes/text/idle_keys.h"

namespace mxtape {
namespace {

/// What of a recipe decides the numbers of its steps.
struct Meaning {
  std::string keys;                                           // "optim.beta2 = 0.95" and so on
  std::vector<std::pair<std::int64_t, PrecisionPlan>> plans;  // from which step on
  bool operator==(const Meaning&) const = default;
};

std::string_view idle_reason(const Recipe& recipe, std::string_view key) {
  for (const IdleKey& idle : idle_keys(recipe))
    if (idle.key == key) return idle.reason;
  return {};
}

Meaning meaning_of(const Recipe& recipe) {
  Recipe copy = recipe;
  Meaning meaning;
  for (const Knob& knob : knobs(copy))
    if (knob.effect == Effect::numbers && idle_reason(recipe, knob.name).empty() &&
        (knob.section() != "precision" || !std::holds_alternative<std::string*>(knob.field)))
      meaning.keys += fmt::format("{} = {}\n", knob.name, value_text(knob));
  for (const auto& [course, step, rollback] : possible_phases(recipe)) {
    PrecisionPlan plan = precision_plan(course, step);
    const std::int64_t from = rollback > 0 ? -rollback : step;
    const auto& plans = meaning.plans;
    if (plans.empty() || plans.back().second != plan || (rollback > 0 && plans.back().first != from))
      meaning.plans.emplace_back(from, std::move(plan));
  }
  return meaning;
}

/// Keys in which all arms agree: initial weights, data order and draws follow from them, and what is
/// measured at the end.
bool is_shared(std::string_view key) {
  constexpr std::array keys{"data.file",          "train.init",    "train.steps",      "train.batch_size",
                            "train.accumulation", "train.strands", "train.eval_every", "train.eval_windows"};
  return (key.starts_with("model.") && key != "model.dropout") || std::ranges::find(keys, key) != keys.end();
}

void require_pairs(const SweepArm& arm, const SweepArm& baseline) {
  for (const auto& change : differences(baseline.recipe, arm.recipe)) {
    const std::string key = key_of(change);
    require(!is_shared(key), ExitCode::usage,
            "{}: arm '{}' differs from the baseline '{}' in {} ({}); arms share initial weights, data order, "
            "length and validation, or their losses cannot be paired; want it in [set], for all arms",
            arm.where, arm.name, baseline.name, change, arm.recipe.origin(key));
  }
}

/// Whether the key, as the file sets it, changes what this arm would be without it.
bool has_effect(const Recipe& with, const Omission& omission) {
  if (!idle_reason(with, omission.key).empty()) return false;
  return !omission.judged || !changes_numbers(with, omission.key) || !trains_alike(with, omission.recipe);
}

std::string reason_of(const Recipe& recipe, std::string_view key) {
  const std::string_view idle = idle_reason(recipe, key);
  return idle.empty() ? "it trains the same without it" : std::string(idle);
}

void require_effects(std::span<const BuiltArm> arms) {
  for (const BuiltArm& built : arms)
    for (const Omission& omission : built.own)
      require(has_effect(built.arm.recipe, omission), ExitCode::usage,
              "{}: {} has no effect in arm '{}': {}; leave it out", omission.where, omission.key,
              built.arm.name, reason_of(built.arm.recipe, omission.key));
  for (std::size_t i = 0; i < arms.front().shared.size(); ++i) {
    const bool serves = std::ranges::any_of(
        arms, [&](const BuiltArm& built) { return has_effect(built.arm.recipe, built.shared[i]); });
    const Omission& omission = arms.front().shared[i];
    require(serves, ExitCode::usage, "{}: {} has no effect in any arm: {}; leave it out", omission.where,
            omission.key, reason_of(arms.front().arm.recipe, omission.key));
  }
}

void require_unlike(std::span<const BuiltArm> arms) {
  std::vector<Meaning> meanings;
  for (const BuiltArm& built : arms) {
    meanings.push_back(meaning_of(built.arm.recipe));
    const std::size_t i = meanings.size() - 1;
    for (std::size_t k = 0; k < i; ++k) {
      if (meanings[k] != meanings[i]) continue;
      const auto changes = differences(arms[k].arm.recipe, built.arm.recipe);
      std::vector<std::string> keys;
      for (const auto& change : changes)
        if (key_of(change) != "name" && key_of(change) != "description") keys.push_back(change);
      fail(ExitCode::usage, "{}: arm '{}' trains as arm '{}' ({}) does: {}; want one of them",
           built.arm.where, built.arm.name, arms[k].arm.name, arms[k].arm.where,
           keys.empty() ? "nothing differs" : fmt::format("{} has no effect here", fmt::join(keys, ", ")));
    }
  }
}

}  // namespace

bool trains_alike(const Recipe& a, const Recipe& b) { return meaning_of(a) == meaning_of(b); }

void check_arms(std::span<const BuiltArm> arms, const std::string& baseline) {
  const auto base = std::ranges::find_if(arms, [&](const BuiltArm& b) { return b.arm.name == baseline; });
  for (const BuiltArm& built : arms) require_pairs(built.arm, base->arm);
  require_effects(arms);
  require_unlike(arms);
}

}  // namespace mxtape
