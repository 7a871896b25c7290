#pragma once
#include "recipes/knobs.h"

namespace mxtape {

/// The keys of [model].
std::vector<Knob> model_knobs(ModelConfig&);

}  // namespace mxtape
