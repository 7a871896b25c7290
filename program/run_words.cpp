#include "program/run_words.h"

#include <algorithm>

#include "core/text/program_name.h"
#include "program/init/init_recipe.h"
#include "program/resume.h"

namespace mxtape {

Options run_options(RunWords& words) {
  return {{"[recipe]", &words.recipe,
           "a .toml file, or the name of a shipped recipe (mxtape recipes); may be left out with --from"},
          {"--resume", &words.options.resume,
           "auto: from the newest checkpoint that verifies; no: start again and keep what is there; or a "
           "checkpoint's path"},
          {"--allow-change", &words.options.allow_change,
           "a key or section that may differ from the checkpoint's recipe on resume, or from the parent's; "
           "may be repeated"},
          {"--from", &words.from.from,
           "branch: begin at this checkpoint, or run's newest, or RUN@STEP, with its recipe and what this "
           "one says on top"},
          {"--fresh", &words.from.fresh,
           "of a branch: begin anew with the optimizer's moments, the schedule, or with no precision but "
           "this recipe's; may be repeated",
           one_of("optimizer schedule precision").needs("--from")},
          device_option(words.device)};
}

Recipe wanted_recipe(RunWords& words, const Given& given, const std::optional<ModelConfig>& model) {
  RunOptions& options = words.options;
  BranchOptions& from = words.from;
  const auto overrides = overrides_of(given, words.device);
  require(!words.recipe.empty() || !from.from.empty(), ExitCode::usage,
          "no recipe; want one, as in `{0} train demo-mxfp4`; `{0} recipes` lists those that are shipped, "
          "and a file of yours does as well",
          program_name());
  require(!words.recipe.empty() ||
              std::any_of(overrides.begin(), overrides.end(), [](auto& o) { return o.starts_with("name="); }),
          ExitCode::usage, "--from {}: no recipe is given, so what is new has no name; add --name=...",
          from.from);
  require(options.allow_change.empty() || !from.from.empty() ||
              (!options.resume.empty() && options.resume != "no"),
          ExitCode::usage,
          "--allow-change: only a run that goes on has something to differ from; want --resume auto, or a "
          "checkpoint's path, or --from RUN, with it");
  require_known_changes(options.allow_change);
  std::vector<std::string> again = given.rest;
  if (!words.recipe.empty()) again.insert(again.begin(), words.recipe);
  if (given("--device")) again.insert(again.end(), {"--device", words.device});
  for (const auto& key : options.allow_change) again.push_back("--allow-change=" + key);
  if (from.from.empty()) {
    options.command = train_command(again);
    return read_recipe_of_run(words.recipe, overrides, options.resume, model);
  }
  again.insert(again.end(), {"--from", from.from});
  for (const auto& word : from.fresh) again.push_back("--fresh=" + word);
  options.command = train_command(again);
  from.allow_change = options.allow_change;
  if (options.resume == "auto")
    if (const auto own = recipe_of_own_checkpoint(from.from, words.recipe, overrides)) return *own;
  options.branch = plan_branch(from, words.recipe, overrides);
  return options.branch->recipe;
}

}  // namespace mxtape
