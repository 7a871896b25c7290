#pragma once
#include <filesystem>
#include <string_view>

namespace mxtape {

/// The operand of every command that takes a trained model, in its help.
inline constexpr const char* run_name_help =
    "a checkpoint; a run's folder, for its newest that verifies; or RUN@STEP, for that step's";

/// The same where a packed model does as well.
inline constexpr const char* model_name_help =
    "a checkpoint; a run's folder, for its newest that verifies; RUN@STEP, for that step's; or a packed "
    "model";

/// The checkpoint that `RUN[@STEP]|CKPT` means: a file is itself, a folder its run's newest that verifies,
/// RUN@STEP the run's checkpoint of that step. A name that is there is taken as it is, '@' or not. Throws
/// Error(data) if nothing is there, with the steps that are; Error(usage) if STEP is no step.
std::filesystem::path checkpoint_of(std::string_view run);

}  // namespace mxtape
