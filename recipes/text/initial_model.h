#pragma once
#include <functional>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// The [model] of what train.init names.
using InitialModel = std::function<ModelConfig(const std::string& init)>;

/// read_recipe() (recipes/recipe.h) of a run that may begin with another's weights: where train.init is set,
/// take_model() of what it names, before the keys are held to each other.
Recipe read_run_recipe(const std::string& path_or_name, const std::vector<std::string>& overrides,
                       const InitialModel&);

/// Gives the keys of [model] that nobody set the values `there`. Throws Error(usage) for those that somebody
/// set otherwise, each with both values and who set it. These may differ: dropouts; the context, if it is
/// shorter or the positions have no table; the vocabulary, if it is larger, and with it init_deviation, of
/// the rows that are drawn.
void take_model(Recipe&, const ModelConfig& there);

}  // namespace mxtape
