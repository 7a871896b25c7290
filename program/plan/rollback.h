#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "program/plan/run_plan.h"
#include "program/records/run_folder.h"

namespace mxtape {

/// A run's rollbacks (train.on_divergence = "rollback"). What a run does after one follows from its recipe,
/// where train.rollbacks says where it went back, and from the checkpoint that it went back to. So a later
/// resume, and a new run with that recipe, give the same bits.

/// Thrown where a run shall go back.
struct Divergence {
  std::int64_t step;   ///< whose numbers are not finite
  std::string reason;  ///< the message, with the tensors
};

/// The last step up to `step` that has a checkpoint by train.save_every or keep_every, or is the `first`.
/// Checkpoints of the clock and of signals differ from run to run, and would take a rollback to another step
/// each time.
std::int64_t newest_planned(const TrainConfig&, std::int64_t first, std::int64_t step);

/// Whether a measurement after the step may begin a phase: up to the last rollback or switch that the recipe
/// has, that alone decides.
bool may_switch(const Recipe&, std::int64_t step);

/// The plan of a run that goes on after a divergence: from the newest planned checkpoint that verifies, as a
/// resume would, with one rollback more. Newer checkpoints are rejected. `lineage`: of what diverged. Throws
/// Error(diverged) if there is no such checkpoint.
void plan_back(RunPlan&, const RunPaths&, const Divergence&, std::string lineage);

/// Copies what the logs say of the steps that a rollback takes back, and why they end, into
/// metrics.rollback_<n>.jsonl. The trainer is the one that goes on.
void keep_records(const RunPaths&, const Trainer&, const Divergence&);

/// The rollbacks with which a run goes on from a checkpoint: those in the checkpoint's recipe, and those
/// after it, of which only the folder's recipe.toml knows.
std::vector<std::string> rollbacks_after(const RunPaths&, const Recipe& of_checkpoint);

/// One turn for each rollback in `recipe` but the first `known`.
std::vector<Turn> turns_of_rollbacks(const Recipe&, std::size_t known);

/// The file that keeps the records of the steps that the n-th rollback took back: of metrics.jsonl, or of
/// another log.
std::filesystem::path records_before_rollback(const std::filesystem::path& run, std::int64_t n,
                                              const char* log = "metrics");

}  // namespace mxtape
