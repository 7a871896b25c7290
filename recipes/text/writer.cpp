#include <algorithm>

#include "formats/quantizer.h"
#include "recipes/knobs.h"
#include "recipes/text/slot_rules.h"

namespace mxtape {
namespace {

void write_rules(std::string& out, std::span<const PrecisionRule> rules, std::string_view name) {
  for (PrecisionRule rule : rules) {
    out += fmt::format("\n[[{}]]  # {}\n", name, rule.where);
    for (const Knob& knob : knobs(rule)) out += fmt::format("{} = {}\n", knob.key(), value_text(knob));
  }
}

/// Rules and phases as lines that are equal for equal precision.
std::vector<std::string> rule_lines(const Recipe& recipe) {
  const PrecisionConfig& precision = recipe.precision;
  std::vector<std::string> lines;
  const auto add = [&](const PrecisionRule& rule, std::string line) {
    PrecisionRule copy = rule;
    for (const Knob& knob : knobs(copy)) line += fmt::format(" {} = {}", knob.key(), value_text(knob));
    lines.push_back(line);
  };
  for (const auto& rule : precision.rules) add(rule, "rule:");
  for (const auto& phase : precision.phases)
    for (const auto& rule : phase.rules)
      add(rule, phase.start_rollback ? fmt::format("from rollback {}:", phase.start_rollback)
                                     : fmt::format("from step {}:", phase_start(recipe, phase)));
  return lines;
}

/// With every number format in the one text that equal formats share: an alias or another order of the words
/// is no difference.
Recipe with_plain_formats(Recipe recipe) {
  PrecisionConfig& precision = recipe.precision;
  for (auto* text : {&precision.weights, &precision.activations, &precision.gradients, &precision.attention,
                     &precision.head})
    *text = to_text(parse_quantizer(*text));
  const auto rewrite = [](std::vector<PrecisionRule>& rules) {
    for (PrecisionRule& rule : rules) rule.format = plain_rule_format(rule.format);
  };
  rewrite(precision.rules);
  for (PrecisionPhase& phase : precision.phases) rewrite(phase.rules);
  return recipe;
}

}  // namespace

Recipe without_whereabouts(Recipe recipe) {
  Recipe defaults;
  const auto own = knobs(recipe), initial = knobs(defaults);
  // Who set a key differs between a run that went through and one that was resumed; its value does not.
  recipe.origins.clear();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].effect == Effect::nothing) copy_value(own[i], initial[i]);
    if (value_text(own[i]) != value_text(initial[i])) recipe.origins[std::string(own[i].name)] = "recipe";
  }
  for (auto& rule : recipe.precision.rules) rule.where = "recipe";
  for (auto& phase : recipe.precision.phases)
    for (auto& rule : phase.rules) rule.where = "recipe";
  return recipe;
}

std::string to_toml(const Recipe& recipe) {
  Recipe r = recipe;
  std::string out;
  std::string_view section;
  const auto finish_section = [&] {
    if (section != "precision") return;
    write_rules(out, r.precision.rules, "precision.rules");
    for (PrecisionPhase& phase : r.precision.phases) {
      out += fmt::format("\n[[precision.phases]]\n");
      PrecisionPhase unset;
      const auto own = knobs(phase), initial = knobs(unset);
      for (std::size_t i = 0; i < own.size(); ++i)
        if (value_text(own[i]) != value_text(initial[i]))
          out += fmt::format("{} = {}\n", own[i].key(), value_text(own[i]));
      write_rules(out, phase.rules, "precision.phases.rules");
    }
  };
  for (const Knob& knob : knobs(r)) {
    if (knob.section() != section) {
      finish_section();
      section = knob.section();
      out += fmt::format("\n[{}]\n", section);
    }
    out += fmt::format("{:<36}  # {}\n", fmt::format("{} = {}", knob.key(), value_text(knob)),
                       r.origin(knob.name));
  }
  finish_section();
  return out;
}

std::vector<std::string> differences(const Recipe& before, const Recipe& after) {
  Recipe a = with_plain_formats(before), b = with_plain_formats(after);
  const auto old_knobs = knobs(a), new_knobs = knobs(b);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < old_knobs.size(); ++i) {
    const std::string was = value_text(old_knobs[i]), is = value_text(new_knobs[i]);
    if (was != is) lines.push_back(fmt::format("{}: {} -> {}", old_knobs[i].name, was, is));
  }
  const auto old_rules = rule_lines(a), new_rules = rule_lines(b);
  for (std::size_t i = 0; i < std::max(old_rules.size(), new_rules.size()); ++i) {
    const std::string was = i < old_rules.size() ? old_rules[i] : "nothing";
    const std::string is = i < new_rules.size() ? new_rules[i] : "nothing";
    if (was != is) lines.push_back(fmt::format("precision.rules {}: {} -> {}", i + 1, was, is));
  }
  return lines;
}

}  // namespace mxtape
