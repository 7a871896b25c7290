#pragma once
#include "recipes/recipe.h"

namespace mxtape {

/// Whether a weight's format asks averages. Throws Error(usage) for `ema` where no weight is rounded from its
/// master value, along with a Hadamard transform, or without precision.weight_average.
bool validate_averages(const Recipe&, const PrecisionPlan&);
/// Throws Error(usage) for averages that no format of any phase asks.
void require_use_of_averages(const Recipe&, bool asked);

}  // namespace mxtape
