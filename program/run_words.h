#pragma once
#include <optional>
#include <string>

#include "nn/model.h"
#include "program/branch.h"
#include "program/command.h"
#include "program/run.h"

namespace mxtape {

/// What `mxtape train` is told, and `mxtape check`, which says beforehand what comes of it: RECIPE, --resume,
/// --allow-change, --from, --fresh, --device, and keys of the recipe.
struct RunWords {
  std::string recipe;
  RunOptions options;
  BranchOptions from;
  std::string device{};
};
Options run_options(RunWords&);

/// The recipe that the words ask for; what else follows from them goes into `words.options`. `model`: that of
/// what train.init names, if it is known.
Recipe wanted_recipe(RunWords&, const Given&, const std::optional<ModelConfig>& model = {});

}  // namespace mxtape
