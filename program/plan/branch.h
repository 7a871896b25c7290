#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5/token_file.h"
#include "program/plan/beginning.h"
#include "program/plan/run_words.h"

namespace mxtape {

/// A branch before its first step: `mxtape train NEW --from RUN`.
struct Branch {
  std::filesystem::path file, parent_run;
  std::optional<CheckpointFile> checkpoint;  ///< the parent's, until a run begins there
  std::string data_hash{};                   ///< with which the parent was trained
  Turn turn{};
  std::vector<std::string> lines{};  ///< for people: from where, what differs, the learning rate

  /// The parent's checkpoint is where it begins.
  void begin(Beginning&);
  /// For people: that an attempt which is there already had another parent; or "".
  std::string other_parent(const std::filesystem::path& run) const;
  /// Throws Error(usage) for a token file of other content under a name that nobody wrote.
  void check_data(const Recipe&, const TokenFile&, const std::vector<std::string>& allowed) const;
};

/// The recipe of a branch that goes on from a checkpoint of its own: that one's, with what the new recipe
/// says on top. The parent is not needed. None without --resume auto, or if the branch has no checkpoint yet.
/// Throws Error(usage) if --from is another parent than the one it branched from.
std::optional<Recipe> recipe_of_own_checkpoint(const RunWords&);

/// Reads the parent's checkpoint and puts the new recipe, or, without one, the overrides alone, on top of its
/// recipe. What checkpoints do not hold, such as compute.threads, is in the recipe.toml of the parent's
/// folder. What differs must be written by the user: in the file itself, on the command line, or in a file of
/// precision keys alone that it extends. Throws Error(usage) for what merely differs, with its origin, for
/// another model, for a name that is the parent's, and where no step is left; Error(data) for a checkpoint
/// that cannot be used.
Branch plan_branch(const RunWords&, Recipe&);

}  // namespace mxtape
