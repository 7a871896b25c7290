#pragma once
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "autograd/slots.h"
#include "recipes/recipe.h"

namespace mxtape {

/// What a precision rule sets its slots to; the type says which kind of slots it sets.
using SlotValue = std::variant<Quantizer, Rotation, OperandSource, StraightThrough>;

/// The format of a rule. Throws Error(usage) if it is none.
SlotValue parse_rule_format(const std::string& text);

/// The same in the one text that equal formats share.
std::string plain_rule_format(const std::string& text);

struct TimedRule {
  std::int64_t start;  ///< the optimizer step from which it holds
  std::size_t number;  ///< its place in the recipe: the rules, then those of each phase
  const PrecisionRule* rule;
};

/// The rules of a recipe, which must live on, in the order in which they are applied, without those of
/// rollbacks that have not come.
std::vector<TimedRule> timed_rules(const Recipe&);

/// Those that hold at a step.
std::span<const TimedRule> until(std::span<const TimedRule>, std::int64_t step);

/// A slot of a plan: a field of one of its layers.
using SlotField = std::variant<Quantizer*, Rotation*, OperandSource*, StraightThrough*>;

/// Is told of each slot that a rule has set, and what stood there.
using SlotWatcher = std::function<void(const TimedRule&, const std::string& layer, std::string_view slot,
                                       SlotField, const SlotValue& before)>;

/// Changes in `plan` what the rules say, in order. Throws Error(usage) if a pattern of one names nothing.
void apply_rules(std::span<const TimedRule>, PrecisionPlan& plan, const ModelConfig&,
                 const SlotWatcher& = {});

/// Calls visit(layer, slot, format) for each slot of a plan that holds a number format.
void each_format(const PrecisionPlan& plan, const auto& visit) {
  for (const auto& [layer, quant] : plan.linear) {
    for (const LinearSlot& slot : linear_slots) visit(layer, slot.slot, quant.*slot.field);
    visit(layer, Slot::out, quant.out);
  }
  for (const auto& [layer, quant] : plan.attention) {
    for (const AttentionSlot& slot : attention_slots) visit(layer, slot.slot, quant.*slot.field);
    visit(layer, Slot::scores, quant.qk_s);
  }
  for (const auto& [layer, q] : plan.parameters)
    visit(layer, layer == "embedding" ? Slot::table : Slot::gain, q);
  for (const auto& [layer, q] : plan.sums) visit(layer, Slot::sum_dw, q);
}

/// What follows from settings together: an operand that is shared with the forward, or taken from it and
/// rounded no more, is rounded as the forward's is; one taken from a forward that rounds nothing is taken
/// from the master. Throws Error(usage) for an operand that is shared and at the same time rotated for its
/// own GEMM.
void settle(PrecisionPlan& plan);

}  // namespace mxtape
