#include "recipes/text/slot_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "autograd/slots.h"
#include "core/error.h"
#include "recipes/text/layer_patterns.h"

namespace mxtape {
namespace {

/// A pattern of stars and dots names everything; slots outside of GEMMs want to be named themselves.
bool names_something(std::string_view glob) { return glob.find_first_not_of("*.") != std::string_view::npos; }

/// Writes a rule's value into the slots that it names, and notes which of its patterns named one.
class RuleWriter {
 public:
  explicit RuleWriter(const PrecisionRule& rule)
      : rule_(rule), patterns_(rule.slots), used_(std::max<std::size_t>(rule.slots.size(), 1), false) {
    if (patterns_.empty()) patterns_.push_back("*");
  }

  template <class Slots, class Target, class Value>
  void write(const Slots& slots, Target& target, const Value& value) {
    for (const auto& slot : slots) write_one(slot.name, target.*slot.field, value, false);
  }
  template <class Value>
  void write_one(std::string_view name, Value& target, const Value& value, bool by_name_only) {
    known_.push_back(name);
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (!matches_glob(patterns_[i], name) || (by_name_only && !names_something(patterns_[i]))) continue;
      used_[i] = true;
      target = value;
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

void share(const std::string& layer, std::string_view gemm, OperandSource& source, const Rotation& rotation,
           Quantizer& backward, const Quantizer& forward, const Rotation& forward_rotation) {
  if (forward.is_identity() && forward_rotation.size == 0 && source == OperandSource::forward)
    source = OperandSource::master;
  const bool bf16_stays =
      backward == bf16_cast && forward.operand_dtype() == DType::bf16 && !forward.has_multiplier();
  if (source == OperandSource::forward && (backward.is_identity() || bf16_stays) && rotation.size == 0)
    source = OperandSource::shared;
  if (source != OperandSource::shared) return;
  require(rotation.size == 0, ExitCode::usage,
          "precision: {}: {}.source is shared, and {}.hadamard is '{}'; the forward's values are not rotated "
          "along that axis; want source=forward, which rounds them again, or hadamard=0",
          layer, gemm, gemm, to_text(rotation));
  backward = forward;
}

}  // namespace

void apply_rule(const PrecisionRule& rule, PrecisionPlan& plan, const ModelConfig& model) {
  std::vector<std::string> names;
  for (const auto& layer : plan.attention) names.push_back(layer.first);
  for (const auto& layer : plan.linear) names.push_back(layer.first);
  for (const auto& layer : plan.parameters) names.push_back(layer.first);
  RuleWriter writer(rule);
  const std::string& format = rule.format;
  const bool is_number =
      !is_rotation_text(format) && !is_source_text(format) && !is_straight_through_text(format);
  for (const auto& name : matching_layers(rule.layers, names, model.layers, rule.where)) {
    const auto linear = plan.linear.find(name);
    const auto parameter = plan.parameters.find(name);
    if (const auto sum = plan.sums.find(name); is_number && sum != plan.sums.end())
      writer.write_one(sum_slot, sum->second, parse_quantizer(format), true);
    if (linear != plan.linear.end()) {
      LinearQuant& quant = linear->second;
      if (is_rotation_text(format)) writer.write(rotation_slots, quant, parse_rotation(format));
      if (is_source_text(format)) writer.write(source_slots, quant, parse_source(format));
      if (is_straight_through_text(format))
        writer.write(straight_through_slots, quant, parse_straight_through(format));
      if (is_number) {
        writer.write(linear_slots, quant, parse_quantizer(format));
        for (const auto& slot : output_slots)
          writer.write_one(slot.name, quant.*slot.field, parse_quantizer(format), true);
      }
    } else if (is_number && parameter != plan.parameters.end()) {
      writer.write_one(name == "embedding" ? table_slot : gain_slot, parameter->second,
                       parse_quantizer(format), true);
    } else if (is_number) {
      AttentionQuant& quant = plan.attention.at(name);
      writer.write(attention_slots, quant, parse_quantizer(format));
      writer.write_one(score_slot.name, quant.*score_slot.field, parse_quantizer(format), true);
    }
  }
  writer.finish();
}

void settle(PrecisionPlan& plan) {
  for (auto& [layer, q] : plan.linear) {
    share(layer, "dgrad", q.dgrad_source, q.dgrad_rotation, q.dgrad_w, q.fprop_w, q.fprop_rotation);
    share(layer, "wgrad", q.wgrad_source, q.wgrad_rotation, q.wgrad_x, q.fprop_x, q.fprop_rotation);
  }
}

}  // namespace mxtape
