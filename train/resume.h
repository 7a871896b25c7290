#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace mxtape {

/// How a run begins.
struct Start {
  std::optional<std::filesystem::path> checkpoint;  ///< none: from step 0
  std::vector<std::string> notes;  ///< for the user: what was rejected or moved away, and why
};

/// `resume`: "auto" takes the newest checkpoint that verifies and sets newer ones that do not aside; "no"
/// starts again and keeps what was there in a folder before-<n>; a path takes that file; "" starts a new run.
/// Throws Error(usage) rather than start from step 0 beside checkpoints that nobody mentioned, Error(data) if
/// there are checkpoints and none verifies.
Start choose_start(const RunFolder&, const std::string& resume);

/// The checkpoint meant by a file's name, or by a run's folder: then its newest one that verifies. Throws
/// Error(data) if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& file_or_run);

/// Lists the changed keys as notes. Throws Error(usage) if one that changes numbers is not in `allowed`,
/// which holds keys or whole sections ("precision"); "data" stands for the content of the token file.
std::vector<std::string> check_changes(const CheckpointHeader&, const Recipe&, const std::string& data_hash,
                                       const std::vector<std::string>& allowed);

}  // namespace mxtape
