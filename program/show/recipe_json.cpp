#include "program/show/recipe_json.h"

#include <cstdlib>
#include <string>

#include "autograd/slots.h"
#include "recipes/phases/rollbacks.h"
#include "recipes/text/precision_table.h"

namespace mxtape {
namespace {

Json rules_json(const std::vector<PrecisionRule>& rules) {
  Json json = Json::array();
  for (const PrecisionRule& rule : rules)
    json.push_back(
        {{"layers", rule.layers}, {"slots", rule.slots}, {"format", rule.format}, {"origin", rule.where}});
  return json;
}

Json layer_json(const std::string& name, const LinearQuant& quant, Products products) {
  Json json{{"layer", name}, {"kind", "linear"}};
  for (const auto& slot : linear_slots) json["slots"][std::string(slot.name)] = to_text(quant.*slot.field);
  for (const auto& slot : rotation_slots)
    if (const Rotation& rotation = quant.*slot.field; rotation.size)
      json["slots"][std::string(slot.name)] = to_text(rotation);
  for (const auto& slot : source_slots)
    if (const OperandSource source = quant.*slot.field; source != OperandSource::master)
      json["slots"][std::string(slot.name)] = to_text(source);
  for (const auto& slot : straight_through_slots)
    if (const StraightThrough& ste = quant.*slot.field; ste.kind != SteKind::identity)
      json["slots"][std::string(slot.name)] = to_text(ste);
  for (const auto& slot : output_slots)
    if (!(quant.*slot.field).is_identity())
      json["slots"][std::string(slot.name)] = to_text(quant.*slot.field);
  json["gemms"] = {{"fprop", gemm_path(quant.fprop_x, quant.fprop_w, products)},
                   {"dgrad", gemm_path(quant.dgrad_dy, quant.dgrad_w, products)},
                   {"wgrad", gemm_path(quant.wgrad_dy, quant.wgrad_x, products)}};
  return json;
}

/// Without "gemms": they belong to attention's kernel, which may fuse them.
Json layer_json(const std::string& name, const AttentionQuant& quant) {
  Json json{{"layer", name}, {"kind", "attention"}};
  for (const auto& slot : attention_slots) json["slots"][std::string(slot.name)] = to_text(quant.*slot.field);
  if (!quant.qk_s.is_identity()) json["slots"][std::string(score_slot.name)] = to_text(quant.qk_s);
  return json;
}

}  // namespace

Json json_value(const Knob& knob) {
  struct Reader {
    const Knob& knob;
    Json operator()(const std::int64_t* x) const { return *x; }
    Json operator()(const std::uint64_t* x) const { return *x; }
    Json operator()(const float*) const { return std::strtod(value_text(knob).c_str(), nullptr); }
    Json operator()(const bool* x) const { return *x; }
    Json operator()(const std::string* x) const { return *x; }
    Json operator()(const Choice& x) const { return x.names[*x.value]; }
    Json operator()(const std::vector<std::string>* x) const { return *x; }
    Json operator()(const NamedInteger& x) const {
      for (const auto& [name, value] : x.names)
        if (*x.value == value) return name;
      return *x.value;
    }
  };
  return std::visit(Reader{knob}, knob.field);
}

Json recipe_json(const Recipe& recipe) {
  Recipe copy = recipe;
  Json json;
  for (const Knob& knob : knobs(copy))
    json[std::string(knob.name)] = {{"value", json_value(knob)}, {"origin", recipe.origin(knob.name)}};
  json["precision.rules"] = rules_json(recipe.precision.rules);
  json["precision.phases"] = Json::array();
  for (const PrecisionPhase& phase : recipe.precision.phases) {
    Json entry = Json::object();
    if (const std::int64_t start = phase_start(recipe, phase); start != never)
      entry["start"] = start;
    else
      put(entry, "start", {nullptr, fmt::format("it starts at rollback {}", phase.start_rollback)});
    entry["rules"] = rules_json(phase.rules);
    json["precision.phases"].push_back(std::move(entry));
  }
  return json;
}

Json precision_json(const Recipe& recipe) {
  Json json = Json::array();
  const Products products = recipe.compute.products();
  const auto add = [&](Json phase, const PrecisionPlan& asked) {
    const PrecisionPlan plan = realised(asked, recipe.compute.device);
    phase["activations"] = name_of(plan.activations);
    phase["layers"] = Json::array();
    for (const auto& [name, quant] : plan.linear)
      phase["layers"].push_back(layer_json(name, quant, products));
    for (const auto& [name, quant] : plan.attention) phase["layers"].push_back(layer_json(name, quant));
    for (const auto& [name, quant] : plan.parameters)
      if (!quant.is_identity())
        phase["layers"].push_back(
            {{"layer", name},
             {"kind", "parameter"},
             {"slots",
              {{std::string(name == "embedding" ? name_of(Slot::table) : name_of(Slot::gain)),
                to_text(quant)}}}});
    for (const auto& [name, quant] : plan.sums)
      if (!quant.is_identity())
        phase["layers"].push_back({{"layer", name},
                                   {"kind", "sum"},
                                   {"slots", {{std::string(name_of(Slot::sum_dw)), to_text(quant)}}}});
    json.push_back(std::move(phase));
  };
  for (const std::int64_t step : plan_changes(recipe))
    add({{"from_step", step}}, precision_plan(recipe, step));
  for (const std::int64_t n : coming_rollbacks(recipe)) {
    Json phase = Json::object();
    put(phase, "from_step", {nullptr, fmt::format("it starts at rollback {}", n)});
    add(std::move(phase), precision_plan(as_rolled_back(recipe, n), 0));
  }
  return json;
}

}  // namespace mxtape
