#pragma once
#include <string>

#include "nn/config.h"

namespace mxtape {

/// Whether a forward pass in this precision computes each token from the tokens before it alone, as it would
/// if it came last: then keys and values can be kept, and passes joined, without another result than that of
/// the order of additions. "" if so, else the first operand that mixes tokens and why: "blocks.0.attn pv.v is
/// mxint8, whose blocks lie along tokens".
std::string mixes_tokens(const PrecisionPlan&);

}  // namespace mxtape
