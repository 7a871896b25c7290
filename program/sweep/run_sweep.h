#pragma once
#include <cstdio>
#include <string>

#include "program/sweep/sweep_plan.h"

namespace mxtape {

enum class SweepForm { text, json };

/// Trains what is to do and writes results.json, results.csv, report.html and the pictures; prints the table
/// or the JSON. Progress goes to stdout, with SweepForm::json to stderr. Throws Error(interrupted) when it
/// was stopped; when runs failed, at the end of all others, an Error with the first one's code.
void run_sweep(const SweepOptions&, const std::string& command, SweepForm);

/// Prints arms, what differs, runs, time and disk. Trains three steps of the baseline in memory to time them,
/// if a step is small; writes nothing.
void print_sweep_plan(const SweepOptions&, SweepForm);

}  // namespace mxtape
