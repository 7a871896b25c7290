#pragma once
#include <string>
#include <vector>

#include "program/plan/beginning.h"
#include "program/records/run_folder.h"

namespace mxtape {

/// `resume`: "auto" takes the newest checkpoint that verifies and rejects newer ones that do not; "no" starts
/// again; a path takes that file; "" starts a new run. The notes say if an attempt without a checkpoint is
/// begun again, at `first_step`: a branch's is its parent's. Changes nothing: set_earlier_aside() does, as
/// late as it can. Throws Error(usage) rather than start from step 0 beside checkpoints that nobody
/// mentioned, Error(data) if there are checkpoints and none verifies.
Beginning choose_start(const RunPaths&, const std::string& resume, std::int64_t first_step = 0);

/// Moves an earlier run into a folder before-<n> and sets rejected checkpoints aside, as a checkpoint is
/// never overwritten. Call it when nothing else can keep the run from starting. Returns notes for the user.
std::vector<std::string> set_earlier_aside(const RunFolder&, const Beginning&);

/// Whether weights of before fit where this key has changed.
inline bool keeps_the_model(const std::string& key) {
  return !key.starts_with("model.") || key == "model.dropout" || key == "model.attention_dropout";
}

/// Whether the words of --allow-change name this key or its section.
bool is_allowed(const std::string& key, const std::vector<std::string>& allowed);

/// Throws Error(usage) for a word of --allow-change that is no key, no section and not "data", or a key that
/// may always differ.
void require_known_changes(const std::vector<std::string>& allowed);

/// Lists the changed keys, "optim.beta2: 0.99 -> 0.95". Throws Error(usage) if one that changes numbers is
/// not in `allowed`, which holds keys or whole sections ("precision"); "data" stands for the content of the
/// token file. Refused, allowed or not: a run that would end before the checkpoint's step, and such a change
/// where no step is left.
std::vector<std::string> check_changes(const CheckpointHeader&, const Recipe&, const std::string& data_hash,
                                       const std::vector<std::string>& allowed);

/// Gives compute.gemm = "auto" its meaning for a whole run: what the checkpoint that goes on was trained
/// with, so that it keeps its arithmetic on another machine; without one, what is quicker here. What a
/// checkpoint holds of a run is never "auto".
void settle_gemm(ComputeConfig&, const ComputeConfig* checkpoint);

/// Writes the run's recipe.toml. If the steps up to the checkpoint's, `step`, were trained with another
/// recipe, that one stays as recipe.until_step_<8 digits>.toml; one whose steps come again goes.
void write_recipe(const RunFolder&, const Beginning&, std::int64_t step, const Recipe&);

}  // namespace mxtape
