#pragma once
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "program/records/file_lock.h"
#include "program/records/run_log.h"
#include "program/show/report.h"
#include "recipes/sweep/sweep_file.h"

namespace mxtape {

struct SweepOptions {
  std::string file, out;  ///< the file: a sweep's, or a results.json
  int jobs = 0;           ///< runs at a time; 0: as many as there are cores and memory for
  bool again = false;     ///< train anew what another recipe or program trained
  std::string part{};     ///< "3/16"
  bool report = false;    ///< trains nothing
};

enum class RunState : std::uint8_t { fresh, unfinished, finished, failed };
std::string_view name_of(RunState);

/// One run: an arm with a seed.
struct SweepRun {
  std::size_t arm = 0;
  std::uint64_t seed = 0;
  std::filesystem::path folder, log;
  RunState state = RunState::fresh;
  std::int64_t first_step = 0, steps = 0;  ///< where a branch begins; in all
  std::int64_t steps_done = 0;             ///< that a resume need not repeat
  std::string stale;                       ///< why what is there is another run's; empty: it is not
  bool elsewhere = false;                  ///< another process trains it
  std::optional<RunRecord> record;

  bool to_do() const { return !elsewhere && (state == RunState::fresh || state == RunState::unfinished); }
};

/// Everything that is known before the first run starts.
struct SweepPlan {
  Sweep sweep;
  std::filesystem::path out;      ///< recipes/<arm>.toml, runs/<arm>/<seed>, logs/<arm>/<seed>.txt, results
  std::vector<SweepRun> runs;     ///< all arms with the first seed, then with the second one ...
  int jobs = 1, threads = 1;      ///< runs at a time, threads of each
  std::string device, data_hash;  ///< the baseline's device
  std::vector<std::string> arithmetics;  ///< by arm: arithmetic_of() its device
  std::int64_t vocabulary = 0;
  std::int64_t memory_of_run = 0, memory = 0;   ///< the largest run's estimate; what there is [bytes]
  std::int64_t disk_needed = 0, disk_free = 0;  ///< of the runs that are still to do
  std::vector<std::string> notes;

  const SweepArm& arm_of(const SweepRun& run) const { return sweep.arms[run.arm]; }
  /// The run that it branches from; null: it begins anew. The runs of a seed lie in the order of the arms.
  const SweepRun* trunk_of(const SweepRun& run) const {
    const auto trunk = sweep.arms[run.arm].trunk;
    return trunk ? &run - run.arm + *trunk : nullptr;
  }
  std::int64_t to_do() const { return std::ranges::count_if(runs, &SweepRun::to_do); }
  /// A run's recipe: the arm's, with the seed, the folder and the threads.
  Recipe recipe_of(const SweepRun&) const;
  std::filesystem::path recipe_file(const SweepRun& run) const {  ///< of its arm
    return out / "recipes" / (arm_of(run).name + ".toml");
  }
  std::string name_of(const SweepRun& run) const {  ///< "mxfp4 seed 2"
    return fmt::format("{} seed {}", arm_of(run).name, run.seed);
  }
};

/// Looks at data, device, memory, disk and what lies in the folder `options.out` already. Trains and writes
/// nothing. Throws Error as train() would for an arm, and Error(usage) if runs of another recipe or program
/// are in the folder and `again` is not given.
SweepPlan plan_sweep(const SweepOptions&, Sweep);

/// Holds a sweep's folder for this process and its children, or what others with another `part` share of it.
/// Waits for runs of a sweep that was killed, as they may still be saving. Throws Error(resource) if another
/// sweep is at work there, and Error(interrupted) after a signal of StopSignals.
std::vector<FileLock> lock_folder(const std::filesystem::path&, std::FILE* out, const std::string& part = "");
/// Without validations. An arm takes what its finished runs took, or its trunk's, or three steps take now;
/// none if these would take seconds.
struct SweepTime {
  double seconds, ms;  ///< of all that is to do; of a step of the baseline
};
/// Leaves out runs of an arm whose three steps diverge, and notes it in the plan.
SweepTime expected_time(SweepPlan&);

/// Runs, time, memory and disk: lines for people, the first after `label`; for programs.
std::string plan_text(const SweepPlan&, const SweepTime&, const std::string& label);
Value plan_value(const SweepPlan&, const SweepTime&);

/// Trains what is to do, each run in a process of its own, `plan.jobs` at a time, and brings the states and
/// records of the plan's runs up to date. A run that fails stops no other but its branches. `command`: how
/// the sweep was started, for the advice on going on. Returns those that did not end well: those that failed,
/// with the first one's code, and those that somebody else's signal stopped. Throws Error(interrupted) after
/// a signal of StopSignals, when every run has saved.
std::vector<Error> train_runs(SweepPlan&, const std::string& command, std::FILE* out);

}  // namespace mxtape
