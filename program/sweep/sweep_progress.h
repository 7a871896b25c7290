#pragma once
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

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

  /// `last` seconds of this run's process.
  void ended(const SweepRun&, double seconds);
  /// Draws the line again if it is time to.
  void look(std::span<const RunningRun>);
  /// A line that stays.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  std::string status(std::span<const RunningRun>);
  std::string eta() const;

  std::FILE* out_;
  const SweepPlan& plan_;
  bool screen_;
  std::int64_t runs_, steps_;  // of this session
  std::int64_t ended_runs_ = 0, ended_steps_ = 0, steps_done_ = 0;
  Clock::time_point begin_ = Clock::now(), last_drawn_ = Clock::now();
  bool line_open_ = false;
};

/// The last step on record in a metrics.jsonl that is being written, and its loss.
struct LastStep {
  std::int64_t step;
  double loss;
};
std::optional<LastStep> last_step(const std::filesystem::path& metrics);

}  // namespace mxtape
