#pragma once
#include <string>
#include <vector>

namespace mxtape {

/// The folder of the run that such a recipe trains, <train.out>/<name>, whatever else it says.
std::string run_folder_of(const std::string& path_or_name, const std::vector<std::string>& overrides);

}  // namespace mxtape
