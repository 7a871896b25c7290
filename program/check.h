#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "program/run.h"
#include "train/memory/device_plan.h"

namespace mxtape {

/// The numbers of the facts, for programs; what was not found out is left open.
struct CheckNumbers {
  std::optional<std::int64_t> train_tokens, validation_tokens, vocabulary, parameters;
  std::optional<double> epochs, validation_share;  ///< the share is of the run's work
  std::optional<std::int64_t> validation_windows;
  std::optional<std::int64_t> memory_needed, memory_capacity;  ///< [bytes]
  std::optional<double> step_flops, bf16_flops, integer_ops;   ///< of linear layers, in one step
  std::optional<std::int64_t> checkpoint_bytes;
  std::optional<std::int64_t> strand_gradient_bytes;  ///< as they travel; of runs with several strands
  std::optional<double> disk_to_start, disk_needed, disk_free;  ///< [bytes]
  std::string device;                                           ///< its description
};

/// What a look at a recipe, its data, the disk and the machine found.
struct CheckReport {
  std::vector<std::string> facts;  ///< lines for people: model, data, memory, disk, work of a step
  CheckNumbers numbers;
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
