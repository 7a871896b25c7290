#include "program/plan/branch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/status.h"
#include "data/hdf5/seal.h"
#include "program/plan/resume.h"
#include "program/records/run_name.h"
#include "recipes/knobs.h"
#include "recipes/text/precision_notes.h"
#include "recipes/text/reader.h"

namespace mxtape {
namespace {

float rate_at(const Recipe& recipe, std::int64_t step) {
  return recipe.optim.learning_rate * learning_rate_factor(recipe.schedule, step, recipe.train.steps);
}

/// For people: a branch's learning rate in its first step, beside its parent's. If the two differ though
/// nobody touched the schedule, as that is as long as the run: why, and which keys hold the rate.
std::vector<std::string> learning_rate_lines(const Recipe& parent, const Recipe& branch, std::int64_t step) {
  const bool parent_is_done = step >= parent.train.steps;
  const float here = rate_at(branch, step), there = rate_at(parent, parent_is_done ? step - 1 : step);
  std::string line = fmt::format("learning rate {:.3g}", here);
  if (parent_is_done)
    line += fmt::format("; the parent ended with {:.3g}", there);
  else if (here != there)
    line += fmt::format("; {:.3g} in the parent's next step", there);
  else
    line += ", as in the parent's next step";
  std::vector<std::string> lines{line};
  const bool touched =
      branch.schedule != parent.schedule || branch.optim.learning_rate != parent.optim.learning_rate;
  if (!touched && here != there)
    lines.push_back(
        fmt::format("  as the schedule ends with train.steps, {} -> {}; to hold the rate: "
                    "--schedule.kind=constant --schedule.warmup_steps=0 --optim.learning_rate={:.3g}",
                    parent.train.steps, branch.train.steps, there));
  return lines;
}

namespace fs = std::filesystem;

constexpr const char* parents = "the parent";  // the origin of its keys

/// Who wrote what differs from the parent.
class Authors {
 public:
  Authors(const Recipe& recipe, const std::string& given) : recipe_(recipe), given_(given) {
    for (const auto& [key, origin] : recipe.origins)
      if (!key.starts_with("precision.") && key != "name" && key != "description")
        more_than_precision_.insert(file_of(origin));
  }

  /// True for the file that the user named, the command line, and a file of precision keys alone: naming it
  /// is writing them.
  bool wrote(const std::string& origin) const {
    const std::string file = file_of(origin);
    if (origin == "default" || file == parents) return false;
    return origin == "command line" || file == given_ || file == "recipes/" + given_ + ".toml" ||
           !more_than_precision_.contains(file);
  }
  /// Of a line of differences(), which counts the rules.
  std::string origin(const std::string& change) const {
    const std::string key = key_of(change);
    if (key != "precision.rules") return recipe_.origin(key);
    const auto all = all_rules(recipe_);
    const std::size_t n = std::stoul(change.substr(key.size()));
    return n <= all.size() ? all[n - 1].where : "command line";
  }

 private:
  const Recipe& recipe_;
  std::string given_;
  std::set<std::string> more_than_precision_;
};

/// The content hash of the checkpoint that `run` means; empty if there is none.
std::string hash_of(const std::string& run) {
  try {
    return verify_seal(checkpoint_of(run));
  } catch (const Error&) {
    return "";
  }
}

/// What `run`'s recipe.toml says of the keys that checkpoints do not hold, but for the folder of the runs.
void take_whereabouts(Recipe& recipe, const fs::path& run) {
  const fs::path file = run / "recipe.toml";
  if (!is_there(file)) return;  // a checkpoint alone
  Recipe there = recipe_from_toml(read_whole_text(file), file.string());
  const auto ours = knobs(recipe), theirs = knobs(there);
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i].effect == Effect::nothing && ours[i].name != "train.out") copy_value(ours[i], theirs[i]);
}

/// The recipe of a checkpoint in the folder of `run`, for a new one to be put on top of. `origin`: of its
/// keys.
Recipe inherited(Recipe recipe, const fs::path& run, const char* origin) {
  take_whereabouts(recipe, run);
  // The checkpoint names every key; those with their default have no author.
  recipe.origins.clear();
  for (const auto& change : differences(Recipe{}, recipe)) recipe.origins[key_of(change)] = origin;
  recipe.origins["data.file"] = origin;
  return recipe;
}

nlohmann::json read_parent(const fs::path& run) {
  return nlohmann::json::parse(read_whole_text(run / "parent.json"), nullptr, false);
}

}  // namespace

Branch plan_branch(const RunWords& words, Recipe& recipe) {
  const fs::path file = checkpoint_of(words.from);
  const std::string hash = verify_seal(file);
  Branch branch{.file = file,
                .parent_run = fs::absolute(file).parent_path().parent_path(),
                .checkpoint = CheckpointFile(std::make_shared<const Hdf5Reader>(file))};
  const CheckpointHeader& there = branch.checkpoint->header();
  const Recipe& parent = there.recipe;
  const std::int64_t step = there.step;
  branch.data_hash = there.data_hash;
  const auto fresh = [&](const char* word) { return std::ranges::count(words.fresh, word) > 0; };
  Recipe base = inherited(parent, branch.parent_run, parents);
  if (fresh("precision")) {
    base.precision = {};
    std::erase_if(base.origins, [](const auto& o) { return o.first.starts_with("precision."); });
  }
  if (fresh("schedule")) base.schedule.start = step, base.origins["schedule.start"] = "--fresh";
  if (fresh("optimizer")) base.optim.start = step, base.origins["optim.start"] = "--fresh";
  recipe = read_recipe_onto(std::move(base), words.recipe, words.overrides);
  if (auto& past = recipe.train.rollbacks; past.empty()) past = parent.train.rollbacks;

  require(recipe.train.init == parent.train.init, ExitCode::usage,
          "--from {}: train.init = \"{}\" ({}) says that the weights come from there; want one of them",
          words.from, recipe.train.init, recipe.origin("train.init"));
  require(step < recipe.train.steps, ExitCode::usage,
          "{}: its {} steps are done; say how many the branch shall have in all: --train.steps={}",
          file.string(), step, 2 * step);
  std::error_code error;
  require(!fs::equivalent(fs::path(recipe.train.out) / recipe.name, branch.parent_run, error),
          ExitCode::usage,
          "--from {}: the branch would go to the parent's own folder, {}; give it a --name of its own",
          words.from, branch.parent_run.string());

  branch.turn = {.step = step, .parent = parent.name, .hash = hash, .fresh = words.fresh};
  const Authors authors(recipe, words.recipe);
  std::string refused, other_model;
  Recipe before = parent, settled = recipe;
  settle_gemm(before.compute, nullptr);   // an import's, which no run has settled
  settle_gemm(settled.compute, nullptr);  // as the run will have it
  for (const auto& change : differences(before, without_whereabouts(settled))) {
    const std::string key = key_of(change);
    if (!changes_numbers(settled, key)) continue;
    branch.turn.changed.push_back(change);
    const std::string origin = authors.origin(change);
    const bool begins_anew = (key == "schedule.start" && fresh("schedule")) ||
                             (key == "optim.start" && fresh("optimizer")) ||
                             (key.starts_with("precision.") && fresh("precision"));
    if (!keeps_the_model(key))
      other_model += fmt::format("\n  {}  ({})", change, origin);
    else if (!begins_anew && !authors.wrote(origin) && !is_allowed(key, words.allow_change))
      refused += fmt::format("\n  {}  ({}); write it in {}, or --{}=..., or --allow-change {}", change,
                             origin, words.recipe, key, key);
  }
  require(other_model.empty(), ExitCode::usage,
          "--from {}: the weights there are another model's:{}\nwant the parent's, so leave these keys out",
          words.from, other_model);
  require(refused.empty(), ExitCode::usage,
          "--from {}: the recipe differs from the parent's where nobody wrote it for this branch:{}",
          words.from, refused);

  auto& lines = branch.lines;
  lines.push_back(fmt::format("branch      from {} at step {}, {} steps to go", file.string(), step,
                              recipe.train.steps - step));
  for (const auto& change : branch.turn.changed) lines.push_back("  " + change);
  if (branch.turn.changed.empty()) lines.push_back("  nothing differs that changes numbers");
  for (const auto& word : words.fresh) lines.push_back("  fresh " + word);
  if (recipe.schedule.start <= step)  // else it is refused, as any run's
    for (const auto& line : learning_rate_lines(parent, recipe, step)) lines.push_back("  " + line);
  return branch;
}

void Branch::begin(Beginning& at) {
  at.file = file, at.checkpoint = std::move(checkpoint);
  at.turn = turn;
  at.from = Beginning::From::parent;
}

void Branch::check_data(const Recipe& recipe, const TokenFile& data,
                        const std::vector<std::string>& allowed) const {
  const bool written = recipe.origin("data.file") != parents;
  require(
      data.hash == data_hash || written || is_allowed("data", allowed), ExitCode::usage,
      "{}: its content is not what {} was trained with (hash {}, then {}); allow it with --allow-change data",
      recipe.data.file, file.string(), data.hash, data_hash);
}

std::string Branch::other_parent(const fs::path& run) const {
  if (!is_there(run / "parent.json")) return "";
  const auto earlier = read_parent(run);
  const std::string was = earlier.is_object() ? earlier.value("hash", "") : "";
  if (was.empty() || was == turn.hash) return "";
  return fmt::format(
      "an earlier attempt here began at step {} with a checkpoint of content hash {}; that of {} is {}",
      earlier.value("step", std::int64_t(0)), was, file.string(), turn.hash);
}

std::optional<Recipe> recipe_of_own_checkpoint(const RunWords& words) {
  if (words.resume != "auto") return {};
  const fs::path folder = run_folder_of(words.recipe, words.overrides);
  const std::string& from = words.from;
  if (!is_there(folder / "parent.json") || list_checkpoints(folder).empty()) return {};
  const auto parent = read_parent(folder);
  require(parent.is_object() && parent.contains("run") && parent.contains("step"), ExitCode::data,
          "{}: is not what a branch writes there", (folder / "parent.json").string());
  const auto at = from.rfind('@');
  const bool has_step = !is_there(from) && at != std::string::npos;
  std::error_code error;  // what cannot be resolved is compared as it is
  const fs::path named = fs::weakly_canonical(fs::absolute(has_step ? from.substr(0, at) : from), error);
  const fs::path run = fs::weakly_canonical(parent["run"].get<std::string>(), error);
  const std::string step = std::to_string(parent["step"].get<std::int64_t>());
  const bool same = (named == run && (!has_step || from.substr(at + 1) == step)) ||
                    named == fs::weakly_canonical(parent.value("checkpoint", ""), error) ||
                    hash_of(from) == parent.value("hash", "");
  require(same, ExitCode::usage, "--from {}: {} branched from {}@{}; want that, or another --name", from,
          folder.string(), run.string(), step);
  const CheckpointFile checkpoint(find_checkpoint(folder));
  return read_recipe_onto(inherited(checkpoint.header().recipe, folder, "its checkpoint"), words.recipe,
                          words.overrides);
}

}  // namespace mxtape
