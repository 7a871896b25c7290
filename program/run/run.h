#pragma once
#include <string>

#include "dist/devices.h"
#include "program/plan/run_plan.h"
#include "program/records/run_folder.h"
#include "program/run/training_loop.h"

namespace mxtape {

/// Trains what is planned to its end, in its run folder: header, steps, validations, checkpoints, a sampled
/// text. What it prints and writes: docs/training.md. A run that is resumed with no step left says so and
/// returns. Throws Error(interrupted) after a signal of StopSignals, with a checkpoint written; other Errors
/// by their meaning, with the last checkpoint intact. `devices`: that train it together; null for one. Rank 0
/// does what is said here, the others follow it.
void train(RunPlan, Devices* devices = nullptr);

/// Trains to the last step, over rollbacks; `trainer` is the last one then. Returns the last validation.
/// Throws as TrainingLoop::train() does.
Evaluation train_to_the_end(RunPlan&, ObservedDevice&, RunFolder&, std::unique_ptr<Trainer>& trainer);

/// Checks before the first step, on all devices that have planned through the data, that program, recipe,
/// data and instruction set are the same everywhere, and that each device has a strand. Then processes that
/// share processors share them out as threads, unless compute.threads says how many. Throws on all, one Error
/// and otherwise SaidElsewhere.
void agree_on_start(Devices&, RunPlan&);

/// "Open MPI v4.1.4, 4 processes on 1 host; 8 strands in 2 rounds, all busy".
std::string devices_text(Devices&, const TrainConfig&);

}  // namespace mxtape
