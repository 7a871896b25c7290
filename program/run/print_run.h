#pragma once
#include <optional>
#include <string>

#include "data/hdf5/token_file.h"
#include "dist/devices.h"
#include "program/plan/run_plan.h"
#include "program/records/run_folder.h"
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

}  // namespace mxtape
