#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

struct TimedRule {
  std::int64_t start;  ///< the optimizer step from which it holds
  std::size_t number;  ///< its place in the recipe: the rules, then those of each phase
  const PrecisionRule* rule;
};

/// The rules of a recipe, which must live on, in the order in which they are applied, without those of
/// rollbacks that have not come.
std::vector<TimedRule> timed_rules(const Recipe&);

/// Those that hold at a step.
std::span<const TimedRule> until(std::span<const TimedRule>, std::int64_t step);

}  // namespace mxtape
