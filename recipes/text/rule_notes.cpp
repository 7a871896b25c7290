#include "recipes/text/precision_notes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "recipes/rollbacks.h"
#include "recipes/text/slot_rules.h"

namespace mxtape {
namespace {

/// A bias of nearest rounding that is of no account: bf16 and wider is what unquantized training uses.
bool is_nearest_and_narrow(const Quantizer& q) {
  return !q.is_stochastic() && q.element.significant_bits() < bf16_format.significant_bits();
}

bool is_gradient(std::string_view slot) {
  return slot.ends_with(".dy") || slot.ends_with(".do") || slot.ends_with(".ds");
}

Recipe without_rules(Recipe recipe) {
  recipe.precision.rules.clear();
  recipe.precision.phases.clear();
  return recipe;
}

/// A plan to which rules are applied in order. Of every slot it knows who set it, and what it would be
/// without that rule.
class RuleCourse {
 public:
  explicit RuleCourse(const Recipe& recipe)
      : model_(recipe.model), plan_(precision_plan(without_rules(recipe), 0)) {}

  void apply(std::span<const TimedRule> rules) {
    apply_rules(
        rules, plan_, model_,
        [this](const TimedRule& rule, const std::string& layer, std::string_view slot, SlotField field,
               const SlotValue& before) {
          note_setting(rule, layer, field, before);
          if (is_gradient(slot))
            note_rounding(rule, {layer, slot}, *std::get<Quantizer*>(field), std::get<Quantizer>(before));
        });
  }

  /// Adds the rules without which the plan would now be another one.
  void find_used(std::set<std::size_t>& used) {
    for (const std::string& layer : touched_)
      for (const Setting& setting : settings_[layer])
        if (!used.contains(setting.by) && matters(setting.by, layer)) used.insert(setting.by);
    touched_.clear();
  }

  /// Of the rules that have rounded to nearest what was rounded at random before, and is now.
  std::vector<std::string> nearest_notes() const {
    std::map<std::size_t, std::set<std::string_view>> slots;  // by rule
    std::map<std::size_t, const Lost*> any;
    for (const auto& [slot, lost] : lost_) {
      slots[lost.rule.number].insert(slot.second);
      any[lost.rule.number] = &lost;
    }
    std::vector<std::string> notes;
    for (const auto& [number, lost] : any)
      notes.push_back(fmt::format(
          "{}: this rule rounds {} of '{}' to nearest ({}), which {} rounded stochastically before ({}); add "
          "round=stochastic to its format to keep that",
          lost->rule.rule->where, fmt::join(slots[number], " and "), lost->rule.rule->layers,
          to_text(*lost->now), slots[number].size() == 1 ? "was" : "were", to_text(lost->before)));
    return notes;
  }

 private:
  using SlotName = std::pair<std::string, std::string_view>;  // layer, slot
  struct Setting {
    std::size_t by;
    SlotField field;
    SlotValue without;
  };
  struct Lost {
    TimedRule rule;
    Quantizer before;
    const Quantizer* now;
  };

  void note_setting(const TimedRule& rule, const std::string& layer, SlotField field,
                    const SlotValue& before) {
    touched_.insert(layer);
    auto& settings = settings_[layer];
    const auto found = std::ranges::find(settings, field, &Setting::field);
    if (found == settings.end())
      settings.push_back({rule.number, field, before});
    else if (found->by != rule.number)
      *found = {rule.number, field, before};
  }

  void note_rounding(const TimedRule& rule, const SlotName& slot, const Quantizer& now,
                     const Quantizer& before) {
    if (!is_nearest_and_narrow(now))
      lost_.erase(slot);
    else if (before.is_stochastic())
      lost_.insert_or_assign(slot, Lost{rule, before, &now});
    else if (const auto found = lost_.find(slot); found != lost_.end() && now != before)
      found->second.rule = rule;
  }

  bool matters(std::size_t rule, const std::string& layer) {
    const auto exchange = [&] {
      for (Setting& setting : settings_[layer])
        if (setting.by == rule)
          std::visit([&]<class T>(T* field) { std::swap(*field, std::get<T>(setting.without)); },
                     setting.field);
    };
    const auto with = settled(layer);
    exchange();
    const auto without = settled(layer);
    exchange();
    return with != without;
  }

  /// The part of the plan that is one layer's; nothing if its settings contradict each other.
  std::optional<PrecisionPlan> settled(const std::string& layer) const {
    PrecisionPlan part;
    const auto copy = [&](const auto& from, auto& to) {
      if (const auto found = from.find(layer); found != from.end()) to.insert(*found);
    };
    copy(plan_.linear, part.linear);
    copy(plan_.attention, part.attention);
    copy(plan_.parameters, part.parameters);
    copy(plan_.sums, part.sums);
    try {
      settle(part);
    } catch (const Error&) {
      return {};
    }
    return part;
  }

  const ModelConfig model_;
  PrecisionPlan plan_;
  std::map<std::string, std::vector<Setting>> settings_;
  std::set<std::string> touched_;  ///< layers, since find_used()
  std::map<SlotName, Lost> lost_;
};

}  // namespace

RuleNotes rule_notes(const Recipe& recipe) {
  RuleNotes notes;
  std::set<std::size_t> used;
  std::set<std::string> said;
  const auto follow = [&](const Recipe& course) {
    const auto rules = timed_rules(course);
    std::span<const TimedRule> left(rules);
    RuleCourse plan(course);
    for (const std::int64_t step : plan_changes(course)) {
      const auto begin = until(left, step);
      left = left.subspan(begin.size());
      plan.apply(begin);
      plan.find_used(used);
      for (auto& note : plan.nearest_notes())
        if (said.insert(note).second) notes.nearest.push_back(std::move(note));
    }
  };
  follow(recipe);
  for (const std::int64_t n : coming_rollbacks(recipe))
    for (const std::int64_t step : plan_changes(recipe)) follow(as_rolled_back(recipe, n, step));
  std::size_t number = 0;
  for (const PrecisionRule& rule : all_rules(recipe))
    if (!used.contains(number++))
      notes.idle.push_back(fmt::format(
          "{}: this rule ('{}' for '{}') changes nothing: what it sets holds already, has no effect there, "
          "or later rules set it again",
          rule.where, rule.format, rule.layers));
  return notes;
}

}  // namespace mxtape
