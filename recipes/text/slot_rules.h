#pragma once
#include "recipes/recipe.h"

namespace mxtape {

/// Changes in `plan` what the rule says. Throws Error(usage) if one of its patterns names nothing.
void apply_rule(const PrecisionRule&, PrecisionPlan& plan, const ModelConfig&);

/// What follows from settings together: an operand that is shared with the forward, or taken from it and
/// rounded no more, is rounded as the forward's is; one taken from a forward that rounds nothing is taken
/// from the master. Throws Error(usage) for an operand that is shared and at the same time rotated for its
/// own GEMM.
void settle(PrecisionPlan& plan);

}  // namespace mxtape
