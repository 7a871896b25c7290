#pragma once
#include <string>

namespace mxtape {

/// The format of a precision rule in the one text that equal formats share: a Quantizer's, a Rotation's, a
/// StraightThrough's or an OperandSource's. Throws Error(usage) if it is none.
std::string plain_rule_format(const std::string& text);

}  // namespace mxtape
