#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// What a model from elsewhere brings beside its weights: the files of its tokenizer, and how to sample.
/// They go from an import to the runs that begin from it, and out again with an export.
inline constexpr std::string_view generation_config_name = "generation_config.json";

/// Files that belong to a tokenizer, and generation_config.json, of those that are in a folder. Throws
/// Error(data) for one that is a folder, device or pipe, or a link that leads out of the folder: what it
/// leads to would be given away with the model. The Hub's cache is made of links from snapshots/<commit> to
/// blobs. Throws Error(resource) if it cannot be seen what is there.
std::vector<std::string> model_files_in(const std::filesystem::path& folder);

/// Where they lie for a checkpoint: its run's folder, else beside it.
std::filesystem::path folder_of_model_files(const std::filesystem::path& checkpoint);

/// Copies them into another folder, in place of what has their names there. Nothing if it is the same folder.
/// Throws Error(data) for one that is not what its name says, Error(resource).
void copy_model_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace mxtape
