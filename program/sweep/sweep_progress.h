#pragma once
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "program/records/run_log.h"
#include "program/show/progress.h"
#include "program/sweep/sweep_plan.h"

namespace mxtape {

/// A run that is being trained.
struct RunningRun {
  const SweepRun* run;
  std::filesystem::file_time_type since;  ///< records that are older are an earlier run's
};

/// What a person sees of a sweep. On a screen one line for all of it is written over and over: runs done,
/// share of the steps, time left, and where each running run is. A line stays for each run that ends.
/// Elsewhere there are those lines, and a status line now and then in a long sweep.
class SweepProgress {
 public:
  SweepProgress(std::FILE* out, const SweepPlan&);

  /// `log`: of a run that is finished. `seconds` of its process.
  void ended(const SweepRun&, double seconds, const std::optional<RunLog>& log);
  /// Draws the line again if it is time to.
  void look(std::span<const RunningRun>);
  /// A line that stays.
  void note(const std::string& text) { line_.keep(text); }

 private:
  std::string status(std::span<const RunningRun>);
  std::string eta() const;

  std::FILE* out_;
  const SweepPlan& plan_;
  Line line_;
  std::int64_t runs_, steps_;  // of this session
  std::int64_t ended_runs_ = 0, ended_steps_ = 0, steps_done_ = 0;
};

}  // namespace mxtape
