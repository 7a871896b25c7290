#pragma once
#include <filesystem>
#include <string>

#include "recipes/recipe.h"

namespace mxtape {

/// Puts a shipped recipe or a file on top of a recipe, after what it extends, and validates nothing: more may
/// follow that makes the whole fit. A relative name starts from `folder`. `asked_by` begins the message of
/// the Error(usage) for a name that is neither.
void read_fragment(Recipe&, const std::string& path_or_name, const std::filesystem::path& folder,
                   const std::string& asked_by);

}  // namespace mxtape
