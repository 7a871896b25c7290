#pragma once
#include <filesystem>
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

/// Puts a shipped recipe or a file on top of a recipe, after what it extends, and validates nothing: more may
/// follow that makes the whole fit. A relative name starts from `folder`. `asked_by` begins the message of
/// the Error(usage) for a name that is neither.
void read_fragment(Recipe&, const std::string& path_or_name, const std::filesystem::path& folder,
                   const std::string& asked_by);

/// What every reader ends with: compute.gemm = auto becomes library in a recipe with source=shared anywhere,
/// as codes serve one axis alone; then validate().
void settle_and_validate(Recipe&);

/// The folder of the run that such a recipe trains, "<train.out>/<name>", whatever else it says.
std::string run_folder_of(const std::string& path_or_name, const std::vector<std::string>& overrides);

}  // namespace mxtape
