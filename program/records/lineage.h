#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mxtape {

/// One turn in a run's past: it branched from another run, began with another's weights, went on with another
/// recipe, or went back to a checkpoint. Lineage is in the run's folder (parent.json, with the parent's
/// path), in its checkpoints and in metrics.jsonl.
struct Turn {
  std::int64_t step = 0;             ///< steps done before it
  std::string parent{};              ///< the run it comes from; empty: it is the same run
  std::string hash{};                ///< content hash of the parent's checkpoint; with `init` of its weights
  std::vector<std::string> fresh{};  ///< "optimizer", "schedule", "precision"
  std::vector<std::string> changed{};  ///< "optim.beta2: 0.99 -> 0.95"
  std::int64_t rollback = 0;           ///< the how many-th, if it is one
  std::int64_t from = 0;               ///< of a rollback: the step that was not finite; of a switch: `step`
  bool init = false;                   ///< it began with the parent's weights alone: train.init

  /// {"event":"branch"|"init"|"change"|"rollback"|"switch","step":400,...}: a line of metrics.jsonl.
  std::string to_json() const;
};

/// Whether a line of metrics.jsonl is a branch, init or change at `step` that is not in the lineage: of an
/// attempt that left no checkpoint.
bool is_lost_turn(const std::string& record, std::int64_t step, const std::string& lineage);

/// Where the run as it is began: at the last branch, init or change, or at 0.
std::int64_t first_step(const std::string& lineage);

/// A checkpoint's lineage with one turn more. `lineage` is a JSON array or empty.
std::string with_turn(const std::string& lineage, const Turn&);

/// Writes a run's parent.json: the folder and the file of what it began with, and that turn.
void write_parent(const std::filesystem::path& json, const std::filesystem::path& from,
                  const std::filesystem::path& file, const Turn&);

/// For people: a line for each turn, below it what changed.
std::string lineage_text(const std::string& lineage);

}  // namespace mxtape
