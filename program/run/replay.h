#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/observers/watch.h"
#include "program/records/metrics.h"
#include "recipes/recipe.h"

namespace mxtape {

struct ReplayOptions {
  std::int64_t step = 0;      ///< counted from 1, as in metrics.jsonl
  std::int64_t rollback = 0;  ///< n: the step as it was before the run's n-th rollback; 0: as it is on record
  std::string device, data;   ///< empty: the recipe's
  /// Called once before the steps that lead to the one that is wanted, and after each of them.
  std::function<void(std::int64_t first, std::int64_t last)> on_start{};
  std::function<void(const StepRecord&)> on_step{};
};

/// A step of a run, computed again.
struct Replay {
  Recipe recipe;                                    ///< as it held at that step
  std::optional<std::filesystem::path> checkpoint;  ///< that it started from; none: from the first step
  std::int64_t begin = 0;                           ///< steps done there
  std::optional<double> recorded;                   ///< loss in metrics.jsonl
  std::optional<double> loss;                       ///< none if the step diverged
  std::string divergence;                           ///< the message, if it did
  std::vector<Watch::Found> tensors;

  bool same_bits() const { return recorded && loss && *recorded == *loss; }
  /// The first tensor with a number that is not finite, or null.
  const Watch::Found* first_nonfinite() const;
};

/// Trains from the nearest checkpoint before the step, or from the first step where there is none, and
/// watches every tensor of the step. Writes nothing. Throws Error(usage) for a step that the run has not come
/// to; Error(data) if the run is not there, or what lies between cannot be computed again: a branch without a
/// checkpoint before the step, a recipe that changed meanwhile, other data; Error(resource) while a process
/// trains in the folder.
Replay replay(const std::filesystem::path& run, const ReplayOptions&);

}  // namespace mxtape
