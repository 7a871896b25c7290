#pragma once
#include <string>
#include <vector>

#include "program/show/command.h"

namespace mxtape {

/// What `mxtape train` is told, and `mxtape check`, which says beforehand what comes of it.
struct RunWords {
  std::string recipe;                       ///< a file or a name; empty: the parent's, with --from
  std::vector<std::string> overrides{};     ///< keys of the recipe: "optim.beta2=0.95"
  std::string resume{};                     ///< "", "auto", "no" or a checkpoint
  std::vector<std::string> allow_change{};  ///< keys and sections that may differ without being written
  std::string from{};                       ///< RUN[@STEP] or a checkpoint, of a branch; empty: no branch
  std::vector<std::string> fresh{};         ///< of a branch: optimizer, schedule, precision
  std::string device{};
  std::string command{};  ///< how this run was started, for the advice on going on
};

/// The options of both commands.
Options run_options(RunWords&);

/// What the command line says beside those options: overrides and command.
void take_rest(RunWords&, const Given&);

/// Throws Error(usage) for words that go with no others.
void require_sense(const RunWords&);

}  // namespace mxtape
