#pragma once
#include <cstdio>
#include <string>

#include "program/sweep/sweep_plan.h"

namespace mxtape {

/// Trains what is to do, each run in a process of its own, `plan.jobs` at a time, and brings the states and
/// records of the plan's runs up to date. A run that fails stops no other. `command`: how the sweep was
/// started, for the advice on going on. Throws Error(interrupted) after a signal of StopSignals, when every
/// run has saved.
void train_runs(SweepPlan&, const std::string& command, std::FILE* out);

}  // namespace mxtape
