#pragma once
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// A sentence if formats are asked for and no operand of any step is quantized, as rules take them all back;
/// or "".
std::string nothing_quantized(const Recipe&);

/// A sentence for each rule without slots that rounds attention's operands beside those of linear layers,
/// where precision.attention is f32.
std::vector<std::string> notes_on_attention(const Recipe&);

}  // namespace mxtape
