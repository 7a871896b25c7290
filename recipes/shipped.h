#pragma once
#include <span>
#include <string_view>

namespace mxtape {

/// A recipe of this folder, built into the program: `mxtape train shakespeare-mxfp4` works from anywhere.
struct ShippedRecipe {
  std::string_view
      name;  ///< the file's path from this folder, without ".toml": "demo-mxfp4", "precision/mxfp4"
  std::string_view text;
};

/// All .toml files of this folder, sorted by name. Defined in a file that cmake/embed_recipes.cmake writes.
std::span<const ShippedRecipe> shipped_recipes();

}  // namespace mxtape
