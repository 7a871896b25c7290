#pragma once
#include <optional>

#include "program/records/lineage.h"
#include "program/records/telemetry.h"

namespace mxtape {

/// A phase of precision that a measurement begins: precision.switch_error, after Chmiel et al. 2025
/// (arXiv:2505.19115), who put the backward pass in higher precision once the gradient's norm is below
/// sqrt(3) times its noise. It is a rollback that takes no step back: what follows it is in train.rollbacks.

/// Throws Error(usage) if nothing is measured, or no phase would begin.
void require_switch(const Recipe&);

/// After a step, before its checkpoint, which so has the switch: begins the next phase if the relative error
/// of the weights' gradients, root mean square over the layers, is above precision.switch_error. A run that
/// stops earlier measures the step again.
std::optional<Turn> switch_precision(Trainer&, const std::optional<Telemetry>&);

}  // namespace mxtape
