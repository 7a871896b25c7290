#pragma once
#include <string_view>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// A key that nothing reads with the others as they are.
struct IdleKey {
  std::string_view key, reason;
};

/// All of a recipe's, whoever set them.
std::vector<IdleKey> idle_keys(const Recipe&);

/// Whether a run writes checkpoints before its end.
bool saves_meanwhile(const TrainConfig&);

}  // namespace mxtape
