#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "autograd/slots.h"
#include "core/error.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

/// '*' stands for any letters, dots included.
bool matches_glob(std::string_view glob, std::string_view name) {
  const auto star = glob.find('*');
  if (star == std::string_view::npos) return glob == name;
  if (name.substr(0, star) != glob.substr(0, star)) return false;
  const auto rest = glob.substr(star + 1);
  for (std::size_t i = star; i <= name.size(); ++i)
    if (matches_glob(rest, name.substr(i))) return true;
  return false;
}

/// "blocks.11.attn" counted from the end: "blocks.-1.attn" in a model of 12 blocks. Other names as they are.
std::string from_the_end(const std::string& name, std::int64_t layers) {
  constexpr std::string_view prefix = "blocks.";
  if (!name.starts_with(prefix)) return name;
  const auto dot = name.find('.', prefix.size());
  return fmt::format("{}{}{}", prefix, std::stoll(name.substr(prefix.size(), dot)) - layers,
                     name.substr(dot));
}

std::vector<std::string_view> split_alternatives(std::string_view patterns) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= patterns.size();) {
    const auto end = std::min(patterns.find('|', begin), patterns.size());
    parts.push_back(patterns.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The layers that a rule names. Every alternative must name one.
std::vector<std::string> matching_layers(const PrecisionRule& rule, const std::vector<std::string>& names,
                                         std::int64_t layers) {
  std::vector<std::string> found;
  for (const auto pattern : split_alternatives(rule.layers)) {
    const std::size_t before = found.size();
    for (const auto& name : names)
      if (matches_glob(pattern, name) || matches_glob(pattern, from_the_end(name, layers)))
        found.push_back(name);
    require(found.size() > before, ExitCode::usage, "{}: no layer matches '{}'; layers: {}", rule.where,
            pattern, fmt::join(names, " "));
  }
  return found;
}

/// Writes a rule's value into the slots that it names, and notes which of its patterns named one.
class RuleWriter {
 public:
  explicit RuleWriter(const PrecisionRule& rule)
      : rule_(rule), patterns_(rule.slots), used_(std::max<std::size_t>(rule.slots.size(), 1), false) {
    if (patterns_.empty()) patterns_.push_back("*");
  }

  template <class Slots, class Target, class Value>
  void write(const Slots& slots, Target& target, const Value& value) {
    for (const auto& slot : slots) {
      known_.push_back(slot.name);
      for (std::size_t i = 0; i < patterns_.size(); ++i) {
        if (!matches_glob(patterns_[i], slot.name)) continue;
        used_[i] = true;
        target.*slot.field = value;
      }
    }
  }

  void finish() {
    std::sort(known_.begin(), known_.end());
    known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      require(used_[i], ExitCode::usage,
              "{}: no slot of these layers matches '{}' for format '{}'; slots: {}", rule_.where,
              patterns_[i], rule_.format, fmt::join(known_, " "));
  }

 private:
  const PrecisionRule& rule_;
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
  std::vector<std::string_view> known_;
};

void apply(const PrecisionRule& rule, PrecisionPlan& plan, const ModelConfig& model) {
  std::vector<std::string> names;
  for (const auto& layer : plan.attention) names.push_back(layer.first);
  for (const auto& layer : plan.linear) names.push_back(layer.first);
  RuleWriter writer(rule);
  const bool rotation = is_rotation_text(rule.format);
  for (const auto& name : matching_layers(rule, names, model.layers)) {
    const auto linear = plan.linear.find(name);
    if (linear != plan.linear.end() && rotation)
      writer.write(rotation_slots, linear->second, parse_rotation(rule.format));
    else if (linear != plan.linear.end())
      writer.write(linear_slots, linear->second, parse_quantizer(rule.format));
    else if (!rotation)
      writer.write(attention_slots, plan.attention.at(name), parse_quantizer(rule.format));
  }
  writer.finish();
}

PrecisionPlan broad_plan(const PrecisionConfig& precision, const ModelConfig& model) {
  const Quantizer weights = parse_quantizer(precision.weights),
                  activations = parse_quantizer(precision.activations),
                  gradients = parse_quantizer(precision.gradients), head = parse_quantizer(precision.head),
                  attention = parse_quantizer(precision.attention);
  PrecisionPlan plan;
  for (const auto& name : linear_layer_names(model)) {
    LinearQuant& q = plan.linear[name];
    const bool in_block = name != "head";
    q.fprop_w = q.dgrad_w = in_block ? weights : head;
    q.fprop_x = q.wgrad_x = in_block ? activations : head;
    q.dgrad_dy = q.wgrad_dy = in_block ? gradients : head;
  }
  for (const auto& name : attention_layer_names(model))
    for (const auto& slot : attention_slots) plan.attention[name].*slot.field = attention;
  return plan;
}

}  // namespace

PrecisionPlan precision_plan(const Recipe& recipe, std::int64_t step) {
  PrecisionPlan plan = broad_plan(recipe.precision, recipe.model);
  plan.activations = recipe.compute.activations == ActivationType::bf16 ? DType::bf16 : DType::f32;
  for (const auto& rule : rules_at(recipe, step)) apply(rule, plan, recipe.model);
  return plan;
}

}  // namespace mxtape
