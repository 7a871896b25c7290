#pragma once
#include <string>

#include "recipes/recipe.h"

namespace mxtape {

/// What compute.saved = packed does with what the layers keep for backward, on the recipe's device here:
/// "packed: wgrad.x of 24 layers in 4 bits, of 1 layer as it is; q, k and v of 6 layers in bf16", for each
/// plan from the step on from which it holds. Empty for `ready`.
std::string saved_text(const Recipe&);

}  // namespace mxtape
