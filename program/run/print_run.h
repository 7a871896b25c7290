#pragma once
#include <optional>
#include <string>

#include "data/hdf5/token_file.h"
#include "dist/devices.h"
#include "program/run/run_folder.h"
#include "program/run/run_plan.h"
#include "train/evaluate.h"

namespace mxtape {

// What a run says on standard output before and after its steps.

/// Before the first step: version, recipe, seed, the plan's facts, the precision of each layer, notes.
void print_header(const RunPlan&, Devices*);
/// Where it begins, at `step`: what was loaded, and what changed.
void print_beginning(const RunPlan&, std::int64_t step);
/// Where it went back to, and what that changes.
void print_rollback(const RunPlan&);
/// A run of which nothing is left to do: the model is there, and nothing is trained or written.
void print_finished(const RunPlan&);
/// Validation loss, perplexity, on how much of the split, the gap to the floor where it is known, and the
/// memory used.
void print_result(const Evaluation&, std::optional<double> floor, std::int64_t peak_bytes);
/// A text that the model goes on with.
void print_sample(Backend&, Trainer&, const TokenFile&);
/// The files of the run.
void print_paths(const RunFolder&, std::int64_t step);

/// "every 500 steps, 8 of 8 slots in 17 of 17 layers, in the formats in use and 2 others".
std::string telemetry_text(const Recipe&);
/// "1742 of 1742 windows every 250 steps, 19% of the run's work".
std::string validation_text(const Recipe&, const TokenFile&);

}  // namespace mxtape
