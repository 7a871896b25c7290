#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "program/plan/initial_weights.h"
#include "program/records/lineage.h"
#include "train/checkpoint.h"

namespace mxtape {

/// Where the numbers of a run's first step come from: its seed, others' weights (train.init), a checkpoint of
/// its own, that of the run that it branches from, or the one that it goes back to.
struct Beginning {
  enum class From : std::uint8_t { seed, weights, checkpoint, parent, rollback } from = From::seed;
  std::optional<std::filesystem::path> file;  ///< the checkpoint's; none: from step 0
  std::optional<CheckpointFile> checkpoint;   ///< it, open, until it is loaded
  std::optional<InitialWeights> weights;      ///< of train.init, until they are loaded
  std::optional<Turn> turn;                   ///< from there to the first step: branch, init or change
  std::size_t known_rollbacks = 0;            ///< those of the run's recipe that the checkpoint's lineage has
  std::optional<std::string> lineage;         ///< instead of the checkpoint's
  bool archive = false;                       ///< an earlier run is in the way
  std::vector<std::filesystem::path> rejected;  ///< newer than the checkpoint; their steps come again
  bool known = false;                           ///< the beginning was found, and nothing of it refused
  bool finished = false;                        ///< no step and no validation is left
  std::vector<std::string> notes;               ///< for people: what was rejected, and why
};

}  // namespace mxtape
