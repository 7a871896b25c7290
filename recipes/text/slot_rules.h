#pragma once
#include <functional>

#include "recipes/text/rule_format.h"
#include "recipes/timed_rules.h"

namespace mxtape {

/// A slot of a plan: a field of one of its layers.
using SlotField = std::variant<Quantizer*, Rotation*, OperandSource*, StraightThrough*>;

/// Is told of each slot that a rule has set, and what stood there.
using SlotWatcher = std::function<void(const TimedRule&, const std::string& layer, std::string_view slot,
                                       SlotField, const SlotValue& before)>;

/// Changes in `plan` what the rules say, in order. Throws Error(usage) if a pattern of one names nothing.
void apply_rules(std::span<const TimedRule>, PrecisionPlan& plan, const ModelConfig&,
                 const SlotWatcher& = {});

/// What follows from settings together: an operand that is shared with the forward, or taken from it and
/// rounded no more, is rounded as the forward's is; one taken from a forward that rounds nothing is taken
/// from the master. Throws Error(usage) for an operand that is shared and at the same time rotated for its
/// own GEMM.
void settle(PrecisionPlan& plan);

}  // namespace mxtape
