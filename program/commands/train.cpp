#include "dist/together.h"
#include "program/command.h"
#include "program/devices/on_all_devices.h"
#include "program/init/init_recipe.h"
#include "program/resume.h"
#include "program/run.h"

namespace mxtape {
namespace {

/// The recipe that the command's words ask for; what else they say goes into `options`. `model`: that of what
/// train.init names, if it is known.
Recipe wanted_recipe(const CLI::App& command, const std::string& recipe, RunOptions& options,
                     BranchOptions& from, const std::optional<ModelConfig>& model) {
  require(options.allow_change.empty() || !from.from.empty() ||
              (!options.resume.empty() && options.resume != "no"),
          ExitCode::usage,
          "--allow-change: only a run that goes on has something to differ from; want --resume auto, or a "
          "checkpoint's path, or --from RUN, with it");
  require_known_changes(options.allow_change);
  std::vector<std::string> words = words_of(command, recipe);
  for (const auto& key : options.allow_change) words.push_back("--allow-change=" + key);
  if (from.from.empty()) {
    options.command = train_command(words);
    return read_recipe_of_run(recipe, overrides_of(command), options.resume, model);
  }
  words.insert(words.end(), {"--from", from.from});
  for (const auto& word : from.fresh) words.push_back("--fresh=" + word);
  options.command = train_command(words);
  from.allow_change = options.allow_change;
  if (options.resume == "auto")
    if (const auto own = recipe_of_own_checkpoint(from.from, recipe, overrides_of(command))) return *own;
  options.branch = plan_branch(from, recipe, overrides_of(command));
  return options.branch->recipe;
}

/// What --devices says is what a launcher has started.
void require_devices(int wanted, int found) {
  require(
      wanted == 0 || wanted == found, ExitCode::usage,
      "--devices {0}: {1} {2} started; put `torchrun --no-python --nproc-per-node {0}` or `mpirun -n {0}` "
      "before the command (docs/devices.md)",
      wanted, found, found == 1 ? "process was" : "processes were");
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("train", "Train a recipe: header, progress, validation, checkpoints, a sample");
  auto recipe = std::make_shared<std::string>();
  auto options = std::make_shared<RunOptions>();
  command->add_option("recipe", *recipe, "a .toml file, or the name of a shipped recipe (mxtape recipes)")
      ->required();
  command->add_option(
      "--resume", options->resume,
      "auto: from the newest checkpoint that verifies; no: start again and keep what is there; or a "
      "checkpoint's path");
  repeatable(command->add_option(
      "--allow-change", options->allow_change,
      "a key or section that may differ from the checkpoint's recipe on resume; may be repeated"));
  auto from = std::make_shared<BranchOptions>();
  add_branch_options(*command, *from);
  add_device_option(*command);
  auto processes = std::make_shared<int>(0);
  command
      ->add_option("--devices", *processes,
                   "refuse to train on another number of processes, started by torchrun, mpirun or srun")
      ->check(whole(1));
  command->allow_extras();
  command->footer(
      "Every key of a recipe is an option too: --section.key=value (mxtape check RECIPE lists them).");
  command->callback([=] {
    on_all_devices([&](Devices* devices) {
      Group* const group = devices ? &devices->group() : nullptr;
      std::optional<Recipe> wanted;
      const auto read = [&](const std::optional<ModelConfig>& model) {
        wanted = wanted_recipe(*command, *recipe, *options, *from, model);
      };
      together(group, [&] {
        require_devices(*processes, devices ? devices->size() : 1);
        if (!devices || devices->rank() == 0) read({});
      });
      // What train.init names, and the checkpoint that a run goes on from, may be on rank 0's host alone.
      if (group) {
        const auto all = group->all_gather(wanted ? to_toml(*wanted) : "", Patience::alone);
        together(group, [&] {
          if (!wanted) read(recipe_from_toml(all.front(), "rank 0's recipe").model);
        });
      }
      run_training(*wanted, *options, devices);
    });
  });
}

}  // namespace mxtape
