#include "recipes/text/slot_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/tokenizers/text/utf8.h"
#include "recipes/text/layer_patterns.h"

namespace mxtape {
namespace {

/// A pattern of stars and dots names everything; slots outside of GEMMs want to be named themselves.
bool names_something(std::string_view glob) { return glob.find_first_not_of("*.") != std::string_view::npos; }

/// Writes a rule's value into the slots that it names, and notes which of its patterns named one.
class RuleWriter {
 public:
  RuleWriter(const TimedRule& timed, const SlotWatcher& watcher)
      : timed_(timed),
        watcher_(watcher),
        patterns_(timed.rule->slots),
        used_(std::max<std::size_t>(patterns_.size(), 1), false) {
    if (patterns_.empty()) patterns_.push_back("*");
  }

  void enter(const std::string& layer) { layer_ = &layer; }
  template <class Slots, class Target, class Value>
  void write(const Slots& slots, Target& target, const Value& value) {
    for (const auto& slot : slots) write_one(slot.name, target.*slot.field, value, false);
  }
  template <class Value>
  void write_one(std::string_view name, Value& target, const Value& value, bool by_name_only) {
    known_.push_back(name);
    bool named = false;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (!matches_glob(patterns_[i], name) || (by_name_only && !names_something(patterns_[i]))) continue;
      used_[i] = named = true;
    }
    if (!named) return;
    const Value before = std::exchange(target, value);
    if (watcher_) watcher_(timed_, *layer_, name, &target, before);
  }

  void finish() {
    if (std::find(used_.begin(), used_.end(), false) == used_.end()) return;
    std::sort(known_.begin(), known_.end());
    known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      require(used_[i], ExitCode::usage, "{}: no slot of these layers matches {} for format '{}'; slots: {}",
              timed_.rule->where, shown_text(patterns_[i]), timed_.rule->format, fmt::join(known_, " "));
  }

 private:
  const TimedRule& timed_;
  const SlotWatcher& watcher_;
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
  std::vector<std::string_view> known_;
  const std::string* layer_ = nullptr;
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

const auto& slots_of(const Rotation&) { return rotation_slots; }
const auto& slots_of(OperandSource) { return source_slots; }
const auto& slots_of(const StraightThrough&) { return straight_through_slots; }

/// What only linear layers have.
template <class Value>
void write(RuleWriter& writer, const Value& value, const std::string& layer, PrecisionPlan& plan) {
  if (const auto linear = plan.linear.find(layer); linear != plan.linear.end())
    writer.write(slots_of(value), linear->second, value);
}
void write(RuleWriter& writer, const Quantizer& value, const std::string& layer, PrecisionPlan& plan) {
  if (const auto sum = plan.sums.find(layer); sum != plan.sums.end())
    writer.write_one(name_of(Slot::sum_dw), sum->second, value, true);
  if (const auto linear = plan.linear.find(layer); linear != plan.linear.end()) {
    writer.write(linear_slots, linear->second, value);
    for (const auto& slot : output_slots)
      writer.write_one(slot.name, linear->second.*slot.field, value, true);
  } else if (const auto parameter = plan.parameters.find(layer); parameter != plan.parameters.end()) {
    writer.write_one(layer == "embedding" ? name_of(Slot::table) : name_of(Slot::gain), parameter->second,
                     value, true);
  } else {
    AttentionQuant& quant = plan.attention.at(layer);
    writer.write(attention_slots, quant, value);
    writer.write_one(score_slot.name, quant.*score_slot.field, value, true);
  }
}

}  // namespace

SlotValue parse_rule_format(const std::string& text) {
  if (is_rotation_text(text)) return parse_rotation(text);
  if (is_straight_through_text(text)) return parse_straight_through(text);
  if (is_source_text(text)) return parse_source(text);
  return parse_quantizer(text);
}

std::string plain_rule_format(const std::string& text) {
  return std::visit([](const auto& value) { return to_text(value); }, parse_rule_format(text));
}

void apply_rules(std::span<const TimedRule> rules, PrecisionPlan& plan, const ModelConfig& model,
                 const SlotWatcher& watcher) {
  if (rules.empty()) return;
  std::vector<std::string> names;
  for (const auto& layer : plan.attention) names.push_back(layer.first);
  for (const auto& layer : plan.linear) names.push_back(layer.first);
  for (const auto& layer : plan.parameters) names.push_back(layer.first);
  const LayerNames layers(std::move(names), model.layers);
  for (const TimedRule& timed : rules) {
    RuleWriter writer(timed, watcher);
    const SlotValue value = parse_rule_format(timed.rule->format);
    for (const auto& name : layers.matching(timed.rule->layers, timed.rule->where)) {
      writer.enter(name);
      std::visit([&](const auto& of_its_kind) { write(writer, of_its_kind, name, plan); }, value);
    }
    writer.finish();
  }
}

void settle(PrecisionPlan& plan) {
  for (auto& [layer, q] : plan.linear) {
    share(layer, "dgrad", q.dgrad_source, q.dgrad_rotation, q.dgrad_w, q.fprop_w, q.fprop_rotation);
    share(layer, "wgrad", q.wgrad_source, q.wgrad_rotation, q.wgrad_x, q.fprop_x, q.fprop_rotation);
  }
}

}  // namespace mxtape
