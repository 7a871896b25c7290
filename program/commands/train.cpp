#include "dist/together.h"
#include "program/run/on_all_devices.h"
#include "program/run/run.h"
#include "program/show/command.h"

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
       "under mpirun or srun: refuse another number than they have started",
       within(1, 4096)});
  return rows;
}

void run(Arguments& a, const Given& given) {
  on_all_devices(a.devices, [&](Devices* devices) {
    together(devices ? &devices->group() : nullptr, [&] { take_rest(a.words, given); });
    if (a.devices > 0) a.words.command += fmt::format(" --devices {}", a.devices);
    train(RunPlan(a.words), devices);
  });
}

}  // namespace

Command commands::train() {
  return {"train", "Train a recipe: header, progress, validation, checkpoints, a sample", with(options, run),
          "Every key of a recipe is an option too: --section.key=value (mxtape check RECIPE --all lists "
          "them).",
          true};
}

}  // namespace mxtape
