#pragma once
#include <span>

#include "autograd/parameter.h"
#include "kernels/backend.h"

namespace mxtape {

/// Gives matrices a moving average (Parameter::average), which rounding with `ema` asks: each begins at the
/// weight itself, as does that of a weight whose average is lost. `all`: also where there is none yet.
void begin_averages(Backend&, std::span<Parameter* const>, bool all);

}  // namespace mxtape
