#pragma once
#include "recipes/recipe.h"

namespace mxtape {

/// Throws Error(usage) for `ema` where no weight is rounded from its master value, along with a Hadamard
/// transform, or without precision.weight_average; and for averages that no format of the recipe asks, now or
/// in a phase.
void validate_averages(const Recipe&, const PrecisionPlan&);

}  // namespace mxtape
