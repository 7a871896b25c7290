#include "recipes/text/precision_notes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "recipes/rollbacks.h"
#include "recipes/telemetry.h"
#include "recipes/text/layer_patterns.h"
#include "recipes/text/slot_rules.h"

namespace mxtape {

std::vector<PrecisionRule> all_rules(const Recipe& recipe) {
  std::vector<PrecisionRule> rules = recipe.precision.rules;
  for (const auto& phase : recipe.precision.phases)
    rules.insert(rules.end(), phase.rules.begin(), phase.rules.end());
  return rules;
}

namespace {

/// True for operands that only a cast to bf16, or nothing, rounds.
bool is_unquantized(const Quantizer& q) { return q.is_identity() || q == bf16_cast; }

/// A rule's number format; f32 for what sets no numbers.
Quantizer number_format(const std::string& text) {
  const SlotValue value = parse_rule_format(text);
  const auto* number = std::get_if<Quantizer>(&value);
  return number ? *number : f32_passthrough;
}

bool quantizes(const PrecisionPlan& plan) {
  bool any = false;
  each_format(plan, [&](const std::string&, Slot, const Quantizer& q) { any |= !is_unquantized(q); });
  return any;
}

/// A sentence for each rule without slots that rounds attention's operands beside those of linear layers,
/// where precision.attention is f32.
std::vector<std::string> notes_on_attention(const Recipe& recipe) {
  std::vector<std::string> notes;
  if (!parse_quantizer(recipe.precision.attention).is_identity()) return notes;
  const PrecisionPlan plan = precision_plan(recipe, 0);
  std::vector<std::string> names;
  for (const auto& layer : plan.attention) names.push_back(layer.first);
  for (const auto& layer : plan.linear) names.push_back(layer.first);
  const LayerNames layers(std::move(names), recipe.model.layers);
  for (const PrecisionRule& rule : all_rules(recipe)) {
    if (!rule.slots.empty() || rule.layers == "*" || number_format(rule.format).is_identity()) continue;
    const auto reached = layers.matching(rule.layers, rule.where);
    const auto attention =
        std::ranges::count_if(reached, [&](const auto& name) { return plan.attention.contains(name); });
    if (attention == 0 || attention == std::ssize(reached)) continue;  // or all that it names
    notes.push_back(fmt::format(
        "{}: this rule ('{}' for '{}') has no slots, so it reaches the twelve of attention as well, which "
        "precision.attention = f32 leaves as they are; slots = [\"fprop.*\", \"dgrad.*\", \"wgrad.*\"] keeps "
        "it to linear layers",
        rule.where, rule.format, rule.layers));
  }
  return notes;
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
  const bool untouched = std::ranges::all_of(
      linear_slots, [&](const LinearSlot& slot) { return (head.*slot.field).is_identity(); });
  if (keys.empty() || !untouched || recipe.origins.contains("precision.head")) return;
  notes.push_back(fmt::format(
      "precision.{} {} only the linear layers in blocks: the head stays f32; precision.head sets it",
      fmt::join(keys, ", "), keys.size() == 1 ? "reaches" : "reach"));
}

/// Why GEMMs with a quantized operand are the library's, where integers were asked for.
void note_library_gemms(const Recipe& recipe, const PrecisionPlan& plan, std::vector<std::string>& notes) {
  if (recipe.compute.gemm != GemmChoice::integer) return;
  const GemmKernels kernels = recipe.compute.gemm_kernels();
  // By GEMM and the format in the way.
  std::map<std::pair<std::string_view, std::string>, std::int64_t> layers;
  const auto look = [&](std::string_view gemm, const Quantizer& a, const Quantizer& b) {
    if (gemm_layout(kernels, a, b) == Layout::codes) return;
    if (a.scale == ScaleKind::none && b.scale == ScaleKind::none) return;
    ++layers[{gemm, to_text(has_integer_codes(a) ? b : a)}];
  };
  for (const auto& [layer, q] : plan.linear) {
    look("fprop", q.fprop_x, q.fprop_w);
    look("dgrad", q.dgrad_dy, q.dgrad_w);
    look("wgrad", q.wgrad_dy, q.wgrad_x);
  }
  for (const auto& [what, count] : layers) {
    notes.push_back(
        fmt::format("compute.gemm: the library multiplies {} in {} layer{}: '{}' has no integer codes",
                    what.first, count, count == 1 ? "" : "s", what.second));
  }
}

/// Settings that do nothing for operands that nothing quantizes: a Hadamard transform, a straight-through
/// kind.
void note_idle_settings(const PrecisionPlan& plan, std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> idle;  // layers by what does nothing in them
  const auto add = [&](const std::string& layer, bool is_set, std::string_view slot, const std::string& text,
                       std::initializer_list<const Quantizer*> operands) {
    const bool all = std::ranges::all_of(operands, [](const Quantizer* q) { return is_unquantized(*q); });
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

}  // namespace

std::string nothing_quantized(const Recipe& recipe) {
  const PrecisionConfig& p = recipe.precision;
  std::string asked;
  for (const auto& rule : all_rules(recipe))
    if (!is_unquantized(number_format(rule.format)))
      asked = fmt::format("{} asks for {}", rule.where, rule.format);
  for (const auto& [key, text] : {std::pair{"weights", &p.weights}, std::pair{"activations", &p.activations},
                                  std::pair{"gradients", &p.gradients}, std::pair{"attention", &p.attention},
                                  std::pair{"head", &p.head}})
    if (!is_unquantized(parse_quantizer(*text))) asked = fmt::format("precision.{} is {}", key, *text);
  if (asked.empty()) return "";
  for (const PossiblePhase& phase : possible_phases(recipe))
    if (quantizes(precision_plan(phase.course, phase.step))) return "";
  return fmt::format(
      "nothing is quantized: every operand of all {} blocks and of the head is f32 or bf16. {}, but rules "
      "take it back everywhere",
      recipe.model.layers, asked);
}

std::vector<std::string> precision_notes(const Recipe& recipe) {
  std::vector<std::string> notes = notes_on_attention(recipe);
  if (std::string nothing = nothing_quantized(recipe); !nothing.empty()) notes.insert(notes.begin(), nothing);
  const RuleNotes of_rules = rule_notes(recipe);
  note_unreached_head(recipe, notes);
  const TelemetryPlan measured = telemetry_plan(recipe);
  bool may_switch = recipe.precision.switch_error == 0;
  notes.insert(notes.end(), of_rules.idle.begin(), of_rules.idle.end());
  for (const auto& [course, step, rollback] : possible_phases(recipe)) {
    const PrecisionPlan plan = precision_plan(course, step);
    note_library_gemms(recipe, plan, notes);
    if (rollback == 0) note_idle_settings(plan, notes);
    if (rollback > 0 && recipe.train.on_divergence != OnDivergence::rollback) continue;  // only by a switch
    may_switch |= std::ranges::any_of(plan.linear, [&](const auto& layer) {
      const LinearQuant& q = layer.second;
      return measured.wants_layer(layer.first) && !(q.wgrad_dy.is_identity() && q.wgrad_x.is_identity());
    });
  }
  if (!may_switch)
    notes.push_back(
        "precision.switch_error can never act: in the layers that telemetry measures nothing rounds the "
        "operands of wgrad");
  notes.insert(notes.end(), of_rules.nearest.begin(), of_rules.nearest.end());
  std::set<std::string> said;
  std::erase_if(notes, [&](const std::string& note) { return !said.insert(note).second; });
  return notes;
}

void note_activations(const PrecisionPlan& plan, const char* form, std::vector<std::string>& notes) {
  std::set<std::string> formats;
  for (const auto& [layer, q] : plan.linear) formats.insert({to_text(q.fprop_x), to_text(q.out)});
  for (const auto& [layer, q] : plan.attention)
    for (const Quantizer& one : {q.qk_q, q.qk_k, q.pv_p, q.pv_v, q.qk_s}) formats.insert(to_text(one));
  for (const auto& [layer, quantizer] : plan.parameters) formats.insert(to_text(quantizer));
  formats.erase(to_text(Quantizer{}));
  if (!formats.empty())
    notes.push_back(fmt::format("{} does not say in which formats the run rounds activations: {}", form,
                                fmt::join(formats, ", ")));
}

}  // namespace mxtape
