#pragma once
#include <optional>
#include <string>
#include <vector>

#include "recipes/text/initial_model.h"

namespace mxtape {

/// What `mxtape train` is given as a recipe: read_run_recipe() with the [model] of train.init. `resume`: as
/// `mxtape train --resume`. A run that goes on has its own checkpoint's [model], and what it began with need
/// not be there any more. `known`: the [model] that another rank has found. Throws as InitialWeights
/// (program/init/initial_weights.h) and CheckpointFile.
Recipe read_recipe_of_run(const std::string& path_or_name, const std::vector<std::string>& overrides,
                          const std::string& resume = "", const std::optional<ModelConfig>& known = {});

/// The [model] of whatever train.init names. Asked twice for the same, it reads once.
InitialModel initial_models();

}  // namespace mxtape
