#include "program/show/recipe_json.h"

#include <cstdlib>
#include <string>

#include "autograd/slots.h"
#include "recipes/rollbacks.h"
#include "recipes/text/precision_table.h"

namespace mxtape {
namespace {

Value rules_json(const std::vector<PrecisionRule>& rules) {
  Table table("layers; slots; format; origin");
  for (const PrecisionRule& rule : rules) table.row(rule.layers, rule.slots, rule.format, rule.where);
  return table;
}

Value layer_json(const std::string& name, const LinearQuant& quant, GemmKernels kernels) {
  Value slots = object();
  for (const auto& slot : linear_slots) put(slots, slot.name, to_text(quant.*slot.field));
  for (const auto& slot : rotation_slots)
    if (const Rotation& rotation = quant.*slot.field; rotation.size) put(slots, slot.name, to_text(rotation));
  for (const auto& slot : source_slots)
    if (const OperandSource source = quant.*slot.field; source != OperandSource::master)
      put(slots, slot.name, to_text(source));
  for (const auto& slot : straight_through_slots)
    if (const StraightThrough& ste = quant.*slot.field; ste.kind != SteKind::identity)
      put(slots, slot.name, to_text(ste));
  for (const auto& slot : output_slots)
    if (!(quant.*slot.field).is_identity()) put(slots, slot.name, to_text(quant.*slot.field));
  return object("layer", name, "kind", "linear", "slots", slots, "gemms",
                object("fprop", gemm_path(quant.fprop_x, quant.fprop_w, kernels), "dgrad",
                       gemm_path(quant.dgrad_dy, quant.dgrad_w, kernels), "wgrad",
                       gemm_path(quant.wgrad_dy, quant.wgrad_x, kernels)));
}

/// Without "gemms": they belong to attention's kernel, which may fuse them.
Value layer_json(const std::string& name, const AttentionQuant& quant) {
  Value slots = object();
  for (const auto& slot : attention_slots) put(slots, slot.name, to_text(quant.*slot.field));
  if (!quant.qk_s.is_identity()) put(slots, score_slot.name, to_text(quant.qk_s));
  return object("layer", name, "kind", "attention", "slots", slots);
}

Value start_at_rollback(std::int64_t n) { return {nullptr, fmt::format("it starts at rollback {}", n)}; }

}  // namespace

Value value_of(const Knob& knob) {
  const auto value = [&](const auto& field) -> Value {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, float*>) {
      return std::strtod(value_text(knob).c_str(), nullptr);
    } else if constexpr (std::is_same_v<Field, Choice>) {
      return field.names[*field.value];
    } else if constexpr (std::is_same_v<Field, NamedInteger>) {
      for (const auto& [name, number] : field.names)
        if (*field.value == number) return name;
      return *field.value;
    } else {
      return *field;
    }
  };
  return std::visit(value, knob.field);
}

Value recipe_json(const Recipe& recipe) {
  Recipe copy = recipe;
  Value json = object();
  for (const Knob& knob : knobs(copy))
    put(json, knob.name, object("value", value_of(knob), "origin", recipe.origin(knob.name)));
  Table phases("start; rules");
  for (const PrecisionPhase& phase : recipe.precision.phases) {
    const std::int64_t start = phase_start(recipe, phase);
    phases.row(start == never ? start_at_rollback(phase.start_rollback) : start, rules_json(phase.rules));
  }
  put(json, "precision.rules", rules_json(recipe.precision.rules), "precision.phases", phases);
  return json;
}

std::vector<Value> precision_json(const Recipe& recipe) {
  std::vector<Value> json;
  const GemmKernels kernels = recipe.compute.gemm_kernels();
  const auto add = [&](const Value& start, const PrecisionPlan& asked) {
    const PrecisionPlan plan = realised(asked, recipe.compute.device);
    std::vector<Value> layers;
    const auto rounded = [&](std::string_view name, const char* kind, std::string_view slot,
                             const Quantizer& quant) {
      if (!quant.is_identity())
        layers.push_back(object("layer", name, "kind", kind, "slots", object(slot, to_text(quant))));
    };
    for (const auto& [name, quant] : plan.linear) layers.push_back(layer_json(name, quant, kernels));
    for (const auto& [name, quant] : plan.attention) layers.push_back(layer_json(name, quant));
    for (const auto& [name, quant] : plan.parameters)
      rounded(name, "parameter", name_of(name == "embedding" ? Slot::table : Slot::gain), quant);
    for (const auto& [name, quant] : plan.sums) rounded(name, "sum", name_of(Slot::sum_dw), quant);
    json.push_back(object("from_step", start, "activations", name_of(plan.activations), "layers", layers));
  };
  for (const std::int64_t step : plan_changes(recipe)) add(step, precision_plan(recipe, step));
  for (const std::int64_t n : coming_rollbacks(recipe))
    add(start_at_rollback(n), precision_plan(as_rolled_back(recipe, n), 0));
  return json;
}

}  // namespace mxtape
