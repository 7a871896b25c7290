#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// For people: a branch's learning rate in its first step, beside its parent's. If the two differ though
/// nobody touched the schedule, as that is as long as the run: why, and which keys hold the rate.
std::vector<std::string> learning_rate_lines(const Recipe& parent, const Recipe& branch, std::int64_t step);

}  // namespace mxtape
