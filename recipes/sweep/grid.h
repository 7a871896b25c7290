#pragma once
#include "recipes/text/table_reader.h"

namespace mxtape {

/// One line of [grid]: a recipe's key, or "recipe", and its values.
struct GridAxis {
  std::string key;
  toml::source_region at;
  std::vector<const toml::node*> values;
};
/// The index of a value for each axis.
using GridPoint = std::vector<std::size_t>;

/// The axes in the order of the file. Throws Error(usage) for a key without a list of values, and for more
/// combinations than a sweep takes.
std::vector<GridAxis> read_grid_axes(const Source&, const toml::source_region& at, const toml::table&);
/// All combinations; the last axis changes fastest.
std::vector<GridPoint> grid_points(const std::vector<GridAxis>&);
/// "weights=mxfp4_rule=even,beta2=0.95": the last part of each key, or all of it where two axes share it, and
/// the value with '_' for blanks and '-' for slashes.
std::string name_of(const std::vector<GridAxis>&, const GridPoint&);

}  // namespace mxtape
