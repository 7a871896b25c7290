#pragma once
#include "recipes/compute_config.h"
#include "recipes/knobs.h"

namespace mxtape {

/// The keys of [compute].
std::vector<Knob> compute_knobs(ComputeConfig&);

}  // namespace mxtape
