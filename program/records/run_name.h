#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

#include "train/checkpoint.h"

namespace mxtape {

/// The operand of every command that takes a trained model, in its help.
inline constexpr const char* run_name_help =
    "a checkpoint; a run's folder, for its newest that verifies; or RUN@STEP, for that step's";

/// The same where a packed model does as well.
inline constexpr const char* model_name_help =
    "a checkpoint; a run's folder, for its newest that verifies; RUN@STEP, for that step's; or a packed "
    "model";

/// Opens a checkpoint. The reason why it cannot be used, or "". Throws where that cannot be told.
std::string fault_of(const std::filesystem::path&, std::optional<CheckpointFile>&);

/// The checkpoint meant by a file's name, or by a run's folder: then its newest one that verifies. Throws
/// Error(data) if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& file_or_run);

/// The content hash of the data of a run's newest checkpoint that verifies; empty without one.
std::string data_hash_of(const std::filesystem::path& run);

/// The checkpoint that `RUN[@STEP]|CKPT` means: a file is itself, a folder its run's newest that verifies,
/// RUN@STEP the run's checkpoint of that step. A name that is there is taken as it is, '@' or not. Throws
/// Error(data) if nothing is there, with the steps that are; Error(usage) if STEP is no step.
std::filesystem::path checkpoint_of(std::string_view run);

}  // namespace mxtape
