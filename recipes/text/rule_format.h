#pragma once
#include <string>
#include <variant>

#include "autograd/source.h"
#include "formats/quantizer.h"
#include "formats/rotation.h"
#include "formats/straight_through.h"

namespace mxtape {

/// What a precision rule sets its slots to; the type says which kind of slots it sets.
using SlotValue = std::variant<Quantizer, Rotation, OperandSource, StraightThrough>;

/// The format of a rule. Throws Error(usage) if it is none.
SlotValue parse_rule_format(const std::string& text);

/// The same in the one text that equal formats share.
std::string plain_rule_format(const std::string& text);

}  // namespace mxtape
