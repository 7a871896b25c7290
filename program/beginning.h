#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "program/init/initial_weights.h"
#include "program/resume.h"
#include "program/run.h"

namespace mxtape {

/// Where a run begins, and with which recipe: what is known before a device is asked for.
struct Beginning {
  Start start;
  bool branches = false;                     ///< start.checkpoint is the parent's
  std::optional<CheckpointFile> checkpoint;  ///< that of `start`
  std::optional<InitialWeights> init;        ///< of a new run with train.init
  Recipe recipe;                             ///< resolved: vocabulary, compute.gemm, rollbacks
  std::size_t known_rollbacks = 0;           ///< those of `recipe` that the checkpoint's lineage has
  std::optional<Turn> turn;                  ///< from the checkpoint to the first step
  std::vector<std::string>
      notes;              ///< for people: what was rejected, changed, chosen; a branch has lines beside
  bool finished = false;  ///< no step and no validation is left
};

/// Finds it for `mxtape train` and, with the same words, for `mxtape check`. Reads checkpoints, changes
/// nothing. Throws the Error with which the run would end.
Beginning begin_run(const Recipe&, const RunOptions&, const RunPaths&, const TokenFile&);

/// Throws Error(usage) if schedule.start or optim.start is a step that a run which begins at `step` has not
/// reached.
void require_reached_starts(const Recipe&, std::int64_t step);

}  // namespace mxtape
