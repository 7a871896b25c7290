#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5/token_file.h"
#include "program/lineage.h"
#include "program/run_folder.h"
#include "train/checkpoint.h"

namespace mxtape {

/// How a run branches from another one: `mxtape train NEW --from RUN`.
struct BranchOptions {
  std::string from{};                       ///< RUN[@STEP] or a checkpoint; empty: no branch
  std::vector<std::string> fresh{};         ///< optimizer, schedule, precision
  std::vector<std::string> allow_change{};  ///< keys and sections that may differ without being written
};

/// A branch before its first step.
struct Branch {
  std::filesystem::path checkpoint, parent_run;
  Recipe recipe;  ///< the parent's, with what the new recipe says on top
  Turn turn;
  std::vector<std::string> lines;  ///< for people: from where, what differs, the learning rate

  /// For people: that an attempt which is there already had another parent; or "".
  std::string other_parent(const std::filesystem::path& run) const;

  /// Throws Error(data) for another tokenizer; Error(usage) for a token file of other content under a name
  /// that nobody wrote.
  void check_data(const TokenFile&) const;

  CheckpointHeader header;
  std::vector<std::string> allowed;
};

/// The recipe of a branch that goes on from a checkpoint of its own: that one's, with what the new recipe
/// says on top. The parent is not needed. None if the branch has no checkpoint yet. Throws Error(usage) if
/// `from` is another parent than the one it branched from.
std::optional<Recipe> recipe_of_own_checkpoint(const std::string& from, const std::string& recipe,
                                               const std::vector<std::string>& overrides);

/// Writes parent.json into the branch's folder: the parent's folder, checkpoint, its hash and step, and what
/// changed.
void write_parent(const RunFolder&, const Branch&);

/// Reads the parent's checkpoint and puts the new recipe, or, for "", the overrides alone, on top of its
/// recipe. What checkpoints do not hold, such as compute.threads, is in the recipe.toml of the parent's
/// folder. What differs must be written by the user: in the file itself, on the command line, or in a file of
/// precision keys alone that it extends. Throws Error(usage) for what merely differs, with its origin, for
/// another model, for a name that is the parent's, and where no step is left; Error(data) for a checkpoint
/// that cannot be used.
Branch plan_branch(const BranchOptions&, const std::string& recipe,
                   const std::vector<std::string>& overrides);

}  // namespace mxtape
