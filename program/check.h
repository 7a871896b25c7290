#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "program/run.h"
#include "program/show/report.h"
#include "train/memory/device_plan.h"

namespace mxtape {

/// What a look at a recipe, its data, the disk and the machine found.
struct CheckReport {
  std::vector<std::string> facts;  ///< lines for people: model, data, memory, disk, work of a step
  /// The numbers of the facts, for programs, under their names in docs/json.md; what was not found out is not
  /// there.
  std::map<std::string_view, Value> numbers{};
  std::int64_t vocabulary = 0;          ///< of the data; 0: not known
  std::optional<DevicePlan> devices{};  ///< if asked for, and known
  std::vector<std::string> notes;       ///< what a resume changes, keys without effect, what may surprise
  std::vector<Error> problems;  ///< what would stop the run, in the order in which run_training() meets it
  std::string weights, weights_hash;  ///< of train.init; empty: drawn
};

/// Looks at everything that could fail after a recipe was read, by the functions and in the order of
/// run_training(). Trains nothing and writes nothing. `devices`: how many processes share the run; 0 if that
/// was not said.
CheckReport check_run(const Recipe&, const RunOptions& = {}, int devices = 0);

}  // namespace mxtape
