#pragma once
#include <cstdio>
#include <string>

#include "program/show/report.h"
#include "program/sweep/sweep_plan.h"

namespace mxtape {

/// Trains what is to do and writes results.json, results.csv, report.html and the pictures; prints the table,
/// or returns what --json says. Progress goes to stdout, with `json` to stderr. Throws Error(interrupted)
/// when it was stopped. The report's problems: runs that failed, with the first one's exit code; then those
/// that a signal stopped.
Report run_sweep(const SweepOptions&, const std::string& command, bool json);

/// Arms, what differs, runs, time and disk. Trains three steps of the baseline in memory to time them, if a
/// step is small; writes nothing.
Report sweep_plan(const SweepOptions&);

/// Trains what is to do, each run in a process of its own, `plan.jobs` at a time, and brings the states and
/// records of the plan's runs up to date. A run that fails stops no other. `command`: how the sweep was
/// started, for the advice on going on. Throws Error(interrupted) after a signal of StopSignals, when every
/// run has saved.
void train_runs(SweepPlan&, const std::string& command, std::FILE* out);

}  // namespace mxtape
