#include "recipes/text/precision_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autograd/slots.h"
#include "recipes/phases/rollbacks.h"

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

/// Why GEMMs with a quantized operand are the library's, where integers are preferred.
void note_library_gemms(const Recipe& recipe, const PrecisionPlan& plan, std::vector<std::string>& notes) {
  const GemmKernels kernels = recipe.compute.gemm_kernels();
  if (kernels == GemmKernels::library) return;
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

}  // namespace

std::vector<std::string> precision_notes(const Recipe& recipe) {
  std::vector<std::string> notes;
  note_unreached_head(recipe, notes);
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
