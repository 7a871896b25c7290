#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// A run's way back from a step that was not finite: after its step `to` came step `to` + 1 again, with
/// another batch or in another precision. A switch (precision.switch_error) is one that takes no step back.
/// Recipes hold them as texts (train.rollbacks): what a step computes follows from recipe and step alone.
struct Rollback {
  std::int64_t from;         ///< the step that was not finite, counted from 1; of a switch: `to`
  std::int64_t to;           ///< steps done in the checkpoint
  bool same_batches;         ///< or the batches of steps to + 1 ... from are passed over
  std::string text() const;  ///< "512 -> 400", "512 -> 400 same batches"
};

/// Those of a recipe, in order. Throws Error(usage) for a text that is none.
std::vector<Rollback> rollbacks(const Recipe&);

/// By how many steps' batches the data are ahead of step `step` (counted from 0): what rollbacks passed over.
std::int64_t steps_passed_over(const Recipe&, std::int64_t step);

/// The recipe as if it had gone back `times` times in all, each time to `step`.
Recipe as_rolled_back(Recipe, std::int64_t times, std::int64_t step = 0);
/// The numbers of the rollbacks that have not come and begin a phase, ascending.
std::vector<std::int64_t> coming_rollbacks(const Recipe&);

/// What may hold from a step on: precision_plan(course, step).
struct PossiblePhase {
  Recipe course;
  std::int64_t step, rollback;  ///< rollback: the last that came in `course` and has not come yet; or 0
};
/// As planned: each step at which formats change. Then for each coming rollback, and for each of these steps
/// as the one that it leads to: that step, and those after it.
std::vector<PossiblePhase> possible_phases(const Recipe&);

/// Throws Error(usage) for phases that no rollback can begin, and for a rollback that would change nothing,
/// after which the same step would diverge again.
void validate_rollbacks(const Recipe&);

}  // namespace mxtape
