#pragma once
#include <string>
#include <vector>

namespace mxtape {

/// Where runs have different data, what stands behind each one's name: " (demo.h5, 60 tokens)". Else, and of
/// a run without a recipe beside its records, nothing. `runs`: folders, or metrics files.
std::vector<std::string> data_beside_names(const std::vector<std::string>& runs);

/// A line for people if some of these say something: losses of other texts share an axis, and mean something
/// else.
std::string remark_on_data(const std::vector<std::string>& data_beside_names);

}  // namespace mxtape
