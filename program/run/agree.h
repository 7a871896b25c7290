#pragma once
#include <string>

#include "dist/devices.h"
#include "program/plan/run_plan.h"

namespace mxtape {

/// Checks before the first step, on all devices that have planned through the data, that program, recipe,
/// data and instruction set are the same everywhere, and that each device has a strand. Then processes that
/// share processors share them out as threads, unless compute.threads says how many. Throws on all, one Error
/// and otherwise SaidElsewhere.
void agree_on_start(Devices&, RunPlan&);

/// "Open MPI v4.1.4, 4 processes on 1 host; 8 strands in 2 rounds, all busy".
std::string devices_text(Devices&, const TrainConfig&);

}  // namespace mxtape
