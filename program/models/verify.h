#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace mxtape {

/// What a look at one file found.
struct Finding {
  std::filesystem::path file;
  std::string content;           ///< "checkpoint of step 6, 84 tensors"; empty if something is wrong
  std::optional<Error> problem;  ///< what is wrong; the message names the file
};

/// Reads whole what `word` names, and checks everything that it promises: a checkpoint (also RUN@STEP), a
/// token file, a packed tensor; of a run's folder each of its checkpoints, its recipes and its metrics.
/// Changes and locks nothing: the run may be going on.
std::vector<Finding> verify(const std::string& word);

}  // namespace mxtape
