#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dist/devices.h"
#include "program/branch.h"

namespace mxtape {

struct RunOptions {
  std::string resume{};                     ///< "", "auto", "no" or a checkpoint: program/resume.h
  std::vector<std::string> allow_change{};  ///< keys or sections that may differ from the checkpoint's recipe
  std::optional<Branch> branch{};  ///< where the run comes from, until it has a checkpoint of its own
  std::string command{};           ///< how this run was started, for the advice on going on
};

/// Trains a recipe to its end in its run folder: header, steps, validations, checkpoints, a sampled text.
/// What it prints and writes: docs/training.md. A run that is resumed with no step left says so and returns.
/// Throws Error(interrupted) after a signal of StopSignals, with a checkpoint written; other Errors by their
/// meaning, with the last checkpoint intact. `devices`: that train it together; null for one. Rank 0 does
/// what is said here, the others follow it.
void run_training(const Recipe&, const RunOptions&, Devices* devices = nullptr);

}  // namespace mxtape
