#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/token_file.h"
#include "recipes/recipe.h"

namespace mxtape {

/// What a look at a recipe, its data, the disk and the machine found.
struct CheckReport {
  std::vector<std::string> facts;  ///< lines for people: model, data, memory, disk, work of a step
  std::vector<std::string> notes;  ///< keys without effect, precision that may surprise
  std::vector<Error> problems;     ///< what would stop the run, in the order in which run_training() meets it
};

/// Whether the run would be started with --resume, to which checkpoints that are there already are no
/// problem.
enum class Resume { no, yes };

/// Looks at everything that could fail after a recipe was read. Trains nothing and writes nothing.
CheckReport check_run(const Recipe&, Resume = Resume::no);

/// The splits that are too short for a window of the model's context and its targets: an Error(data) each.
std::vector<Error> short_splits(const Recipe&, const TokenFile&);

}  // namespace mxtape
