#pragma once
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

}  // namespace mxtape
