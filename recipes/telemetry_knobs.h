#pragma once
#include "recipes/knobs.h"

namespace mxtape {

/// The keys of [telemetry].
std::vector<Knob> telemetry_knobs(TelemetryConfig&);

}  // namespace mxtape
