#pragma once
#include <cstdio>
#include <filesystem>

#include "program/sweep/sweep_plan.h"

namespace mxtape {

/// The folder of a sweep, <out>: recipes/<arm>.toml, runs/<arm>/<seed>, logs/<arm>/<seed>.txt, results.
/// Locked while an object lives.
class SweepFolder {
 public:
  /// Makes the folder and writes the arms' recipes. Runs of a sweep that was killed may still be saving: it
  /// says so on `out` and waits for them. Throws Error(resource) if another sweep is at work there, and
  /// Error(interrupted) after a signal of StopSignals.
  SweepFolder(const SweepPlan&, std::FILE* out);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

 private:
  int lock_ = -1;       ///< of this process
  int runs_lock_ = -1;  ///< of this process and its children
};

std::filesystem::path recipe_file(const SweepPlan&, const SweepRun&);

}  // namespace mxtape
