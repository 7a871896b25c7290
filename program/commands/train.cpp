#include "dist/together.h"
#include "program/command.h"
#include "program/devices/on_all_devices.h"
#include "program/run_words.h"

namespace mxtape {
namespace {

struct Arguments {
  RunWords words;
  int devices = 0;
};

Options options(Arguments& a) {
  Options rows = run_options(a.words);
  rows.push_back(
      {"--devices", &a.devices,
       "train on so many processes of this machine, each with a GPU or its share of the processors; "
       "of those that mpirun or srun has started: refuse another number",
       from(1)});
  return rows;
}

void run(Arguments& a, const Given& given) {
  on_all_devices(a.devices, [&](Devices* devices) {
    Group* const group = devices ? &devices->group() : nullptr;
    std::optional<Recipe> wanted;
    const auto read = [&](const std::optional<ModelConfig>& model) {
      wanted = wanted_recipe(a.words, given, model);
    };
    together(group, [&] {
      if (!devices || devices->rank() == 0) read({});
    });
    // What train.init names, and the checkpoint that a run goes on from, may be on rank 0's host alone.
    if (group) {
      const auto all = group->all_gather(wanted ? to_toml(*wanted) : "", Patience::alone);
      together(group, [&] {
        if (!wanted) read(recipe_from_toml(all.front(), "rank 0's recipe").model);
      });
    }
    if (a.devices > 0) a.words.options.command += fmt::format(" --devices {}", a.devices);
    run_training(*wanted, a.words.options, devices);
  });
}

}  // namespace

Command commands::train() {
  return {"train", "Train a recipe: header, progress, validation, checkpoints, a sample", with(options, run),
          "Every key of a recipe is an option too: --section.key=value (mxtape check RECIPE lists them).",
          true};
}

}  // namespace mxtape
