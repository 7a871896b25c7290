#pragma once
#include <string>
#include <vector>

#include "program/sweep/results.h"
#include "program/sweep/sweep_plan.h"
#include "recipes/sweep/referee_file.h"

namespace mxtape::referee {

/// Trains what is to do of each stage in turn, as far as this part may, and writes results.json, results.csv,
/// report.html and, without [points], pictures; prints the table, or returns what --json says. Progress goes
/// to stdout, with `json` to stderr. With `report` of what is there: results.json of the folder, or the file
/// itself, whose page goes to --out. `command`: how it was started. Throws Error(interrupted) when it was
/// stopped. The report's problems: runs that failed, with the first one's exit code; then those that a signal
/// stopped.
Report run_sweep(const SweepOptions&, const std::string& command, bool json);

/// Points, arms, runs, time and disk of each stage; writes nothing. Arms and values that earlier stages have
/// not chosen yet are stood in for by the first ones.
Report sweep_plan(const SweepOptions&);

/// What a process was asked: a file, its folder, and with `--part 3/16` the third of sixteen parts of it.
struct Asked {
  RefereeFile file;
  SweepOptions options;  ///< with the folder
  int part = 1, parts = 1;
};

/// It diverged, or its trunk did: it would again.
bool has_failed(const SweepPlan&, const SweepRun&);
/// No run is left that could still be trained.
bool is_over(const SweepPlan&);

/// The runs of one stage, of the arms that it trains. `tuned`: by arm, an index of the values of [tune];
/// empty: nothing is tuned. At each size an arm and a seed have a trunk of constant rate, in legs that end
/// where a decay begins, and a decay for each length, which branches there. The longest decay goes on from
/// the last leg, so that one length alone has no trunk. A decay has the bits of the run that was planned so.
/// Throws Error(usage) for lengths whose trunks would be empty, and for an arm that is another in the steps
/// that lengths share, as where a phase starts at a fraction of the run.
SweepPlan plan_points(const Asked&, const Results&, Stage, const std::vector<std::size_t>& tuned);
/// Every arm with every value of [tune] at the smallest point: SweepArm::point is the value's index.
SweepPlan plan_tune(const Asked&);

/// What a file asks, before anything is measured.
Results asked(const RefereeFile&);
/// Adds the stage's runs, with the steps of their trunks, and what trained them.
void add_runs(Results&, const SweepPlan&, Stage);
/// Adds the tokens and seconds of the stage's runs: of the steps that are done or, if `planned`, of all.
void add_work(Results&, const SweepPlan&, bool planned);
/// The values of [tune] by the mean loss over the seeds. Returns by arm the index of the best of those whose
/// runs all ended well; while there is none, of the middle one, and when the stage is over throws
/// Error(diverged).
std::vector<std::size_t> add_tunes(Results&, const SweepPlan&);
/// Chooses the arms for the seeds of `confirm`: those of no family, and of each family the `best` with the
/// lowest losses, mean over the points, on the seeds of `select`. One with a run that did not end well comes
/// last.
void choose_arms(Results&);

}  // namespace mxtape::referee
