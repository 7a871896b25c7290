#include "dist/together.h"
#include "program/command.h"
#include "program/devices/on_all_devices.h"
#include "program/run/run.h"

namespace mxtape {
namespace {

/// What --devices says is what a launcher has started.
void require_devices(int wanted, int found) {
  require(wanted == 0 || wanted == found, ExitCode::usage,
          "--devices {0}: {1} {2} started; put `torchrun --no-python --nproc-per-node {0}` or `mpirun -n "
          "{0}` before the command (docs/devices.md)",
          wanted, found, found == 1 ? "process was" : "processes were");
}

struct Arguments {
  RunWords words;
  int devices = 0;
};

Options options(Arguments& a) {
  Options rows = run_options(a.words);
  rows.push_back({"--devices", &a.devices,
                  "refuse to train on another number of processes, started by torchrun, mpirun or srun",
                  from(1)});
  return rows;
}

void run(Arguments& a, const Given& given) {
  on_all_devices([&](Devices* devices) {
    together(devices ? &devices->group() : nullptr, [&] {
      require_devices(a.devices, devices ? devices->size() : 1);
      take_rest(a.words, given);
    });
    train(RunPlan(a.words), devices);
  });
}

}  // namespace

Command commands::train() {
  return {"train", "Train a recipe: header, progress, validation, checkpoints, a sample", with(options, run),
          "Every key of a recipe is an option too: --section.key=value (mxtape check RECIPE lists them).",
          true};
}

}  // namespace mxtape
