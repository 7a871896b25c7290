#include "recipes/text/precision_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "autograd/slots.h"
#include "recipes/phases/rollbacks.h"
#include "recipes/text/reach_notes.h"

namespace mxtape {
namespace {

using SlotName = std::pair<std::string, std::string_view>;  // layer, slot

/// How each gradient operand of each layer is rounded.
std::map<SlotName, Quantizer> gradient_roundings(const PrecisionPlan& plan) {
  std::map<SlotName, Quantizer> roundings;
  const auto add = [&](const std::string& layer, const auto& slots, const auto& quant) {
    for (const auto& slot : slots)
      if (slot.name.ends_with(".dy") || slot.name.ends_with(".do") || slot.name.ends_with(".ds"))
        roundings[{layer, slot.name}] = quant.*slot.field;
  };
  for (const auto& [layer, quant] : plan.linear) add(layer, linear_slots, quant);
  for (const auto& [layer, quant] : plan.attention) add(layer, attention_slots, quant);
  return roundings;
}

/// A bias of nearest rounding that is of no account: bf16 and wider is what unquantized training uses.
bool is_nearest_and_narrow(const Quantizer& q) {
  return !q.is_stochastic() && q.element.significant_bits() < bf16_format.significant_bits();
}

/// What a rule took stochastic rounding from, and what is still so once all rules are applied.
struct Replacement {
  PrecisionRule rule;
  Quantizer before, after;
  std::set<std::string_view> slots;
};

std::vector<Replacement> replacements_at(const Recipe& recipe, std::int64_t step) {
  const std::vector<PrecisionRule> rules = rules_at(recipe, step);
  Recipe partial = recipe;
  partial.precision.phases.clear();
  partial.precision.rules.clear();
  auto before = gradient_roundings(precision_plan(partial, 0));
  std::map<SlotName, std::pair<std::size_t, Quantizer>> lost;  // by which rule, and what was there
  for (std::size_t i = 0; i < rules.size(); ++i) {
    partial.precision.rules.push_back(rules[i]);
    auto after = gradient_roundings(precision_plan(partial, 0));
    for (const auto& [slot, q] : after) {
      const Quantizer& was = before.at(slot);
      if (!is_nearest_and_narrow(q))
        lost.erase(slot);
      else if (was.is_stochastic())
        lost[slot] = {i, was};
      else if (lost.contains(slot) && q != was)
        lost[slot].first = i;
    }
    before = std::move(after);
  }
  std::map<std::size_t, Replacement> by_rule;
  for (const auto& [slot, by] : lost) {
    Replacement& entry = by_rule[by.first];
    entry.rule = rules[by.first];
    entry.before = by.second;
    entry.after = before.at(slot);
    entry.slots.insert(slot.second);
  }
  std::vector<Replacement> replacements;
  for (auto& [i, entry] : by_rule) replacements.push_back(std::move(entry));
  return replacements;
}

void note_unreached_head(const Recipe& recipe, std::vector<std::string>& notes) {
  const PrecisionConfig& p = recipe.precision;
  std::vector<std::string_view> keys;
  for (const auto& [key, text] : {std::pair{"weights", &p.weights}, std::pair{"activations", &p.activations},
                                  std::pair{"gradients", &p.gradients}})
    if (!parse_quantizer(*text).is_identity()) keys.push_back(key);
  const PrecisionPlan plan = precision_plan(recipe, 0);
  const auto found = plan.linear.find("head");
  if (found == plan.linear.end()) return;  // a kind of model without one
  const LinearQuant& head = found->second;
  const bool untouched = std::all_of(linear_slots.begin(), linear_slots.end(), [&](const LinearSlot& slot) {
    return (head.*slot.field).is_identity();
  });
  if (keys.empty() || !untouched || recipe.origins.contains("precision.head")) return;
  notes.push_back(fmt::format(
      "precision.{} {} only the linear layers in blocks: the head stays f32; precision.head sets it",
      fmt::join(keys, ", "), keys.size() == 1 ? "reaches" : "reach"));
}

/// Why GEMMs with a quantized operand are the library's, where integers were asked for.
void note_library_gemms(const Recipe& recipe, const PrecisionPlan& plan, std::vector<std::string>& notes) {
  if (recipe.compute.gemm != GemmChoice::integer) return;
  const GemmKernels kernels = recipe.compute.gemm_kernels();
  std::map<std::pair<std::string_view, std::string>, std::int64_t>
      layers;  // by GEMM and the format in the way
  const auto look = [&](std::string_view gemm, const Quantizer& a, const Quantizer& b) {
    if (form_of(kernels, a, b) == Form::codes) return;
    if (a.scale == ScaleKind::none && b.scale == ScaleKind::none) return;
    ++layers[{gemm, to_text(has_integer_codes(a) ? b : a)}];
  };
  for (const auto& [layer, q] : plan.linear) {
    look("fprop", q.fprop_x, q.fprop_w);
    look("dgrad", q.dgrad_dy, q.dgrad_w);
    look("wgrad", q.wgrad_dy, q.wgrad_x);
  }
  for (const auto& [what, count] : layers) {
    const std::string note =
        fmt::format("compute.gemm: the library multiplies {} in {} layer{}: '{}' has no integer codes",
                    what.first, count, count == 1 ? "" : "s", what.second);
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
}

/// True for operands that only a cast to bf16, or nothing, rounds.
bool is_unquantized(const Quantizer& q) { return q.is_identity() || q == bf16_cast; }

/// Settings that do nothing for operands that nothing quantizes: a Hadamard transform, a straight-through
/// kind.
void note_idle_settings(const PrecisionPlan& plan, std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> idle;  // layers by what does nothing in them
  const auto add = [&](const std::string& layer, bool is_set, std::string_view slot, const std::string& text,
                       std::initializer_list<const Quantizer*> operands) {
    const bool all =
        std::all_of(operands.begin(), operands.end(), [](const Quantizer* q) { return is_unquantized(*q); });
    if (is_set && all) idle[fmt::format("{} = {}", slot, text)].push_back(layer);
  };
  for (const auto& [layer, q] : plan.linear) {
    const std::array<std::pair<const Quantizer*, const Quantizer*>, 3> operands{
        {{&q.fprop_x, &q.fprop_w}, {&q.dgrad_dy, &q.dgrad_w}, {&q.wgrad_dy, &q.wgrad_x}}};
    for (std::size_t i = 0; i < rotation_slots.size(); ++i) {
      const Rotation& rotation = q.*rotation_slots[i].field;
      add(layer, rotation.size != 0, rotation_slots[i].name, to_text(rotation),
          {operands[i].first, operands[i].second});
    }
    for (const auto& slot : straight_through_slots) {
      const StraightThrough& ste = q.*slot.field;
      add(layer, ste.kind != SteKind::identity, slot.name, to_text(ste),
          {slot.name == "fprop.x.ste" ? &q.fprop_x : &q.fprop_w});
    }
  }
  for (const auto& [setting, layers] : idle)
    notes.push_back(fmt::format("{} does nothing in {}: nothing quantizes its operands there", setting,
                                fmt::join(layers, " ")));
}

std::vector<PrecisionPlan> all_plans(const Recipe& recipe) {
  std::vector<PrecisionPlan> plans;
  for (const std::int64_t step : plan_changes(recipe)) plans.push_back(precision_plan(recipe, step));
  return plans;
}

/// Rules without which every plan is the same.
void note_idle_rules(const Recipe& recipe, std::vector<std::string>& notes) {
  const auto whole = all_plans(recipe);
  Recipe partial = recipe;
  const auto look = [&](std::vector<PrecisionRule>& rules) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::vector<PrecisionRule> kept = rules;
      rules.erase(rules.begin() + std::ptrdiff_t(i));
      if (all_plans(partial) == whole)
        notes.push_back(fmt::format(
            "{}: this rule ('{}' for '{}') changes nothing: what it sets holds already, has no effect there, "
            "or later rules set it again",
            kept[i].where, kept[i].format, kept[i].layers));
      rules = kept;
    }
  };
  look(partial.precision.rules);
  for (PrecisionPhase& phase : partial.precision.phases) look(phase.rules);
}

}  // namespace

std::vector<std::string> precision_notes(const Recipe& recipe) {
  std::vector<std::string> notes = notes_on_attention(recipe);
  if (std::string nothing = nothing_quantized(recipe); !nothing.empty()) notes.insert(notes.begin(), nothing);
  note_unreached_head(recipe, notes);
  note_idle_rules(recipe, notes);
  for (const PrecisionPlan& plan : all_plans(recipe)) note_idle_settings(plan, notes);
  std::set<std::string> said;
  std::erase_if(notes, [&](const std::string& note) { return !said.insert(note).second; });
  for (const std::int64_t step : plan_changes(recipe))
    note_library_gemms(recipe, precision_plan(recipe, step), notes);
  for (const std::int64_t n : coming_rollbacks(recipe))
    note_library_gemms(recipe, precision_plan(as_rolled_back(recipe, n), 0), notes);
  std::vector<Replacement> all;
  const auto add = [&](std::vector<Replacement> more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const std::int64_t step : plan_changes(recipe)) add(replacements_at(recipe, step));
  for (const std::int64_t n : coming_rollbacks(recipe)) add(replacements_at(as_rolled_back(recipe, n), 0));
  for (const Replacement& found : all) {
    const std::string note = fmt::format(
        "{}: this rule rounds {} of '{}' to nearest ({}), which {} rounded stochastically before ({}); add "
        "round=stochastic to its format to keep that",
        found.rule.where, fmt::join(found.slots, " and "), found.rule.layers, to_text(found.after),
        found.slots.size() == 1 ? "was" : "were", to_text(found.before));
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  return notes;
}

}  // namespace mxtape
