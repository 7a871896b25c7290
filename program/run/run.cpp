#include "program/run/run.h"

#include <cstdio>

#include "dist/together.h"
#include "program/plan/resume.h"
#include "program/plan/rollback.h"
#include "program/records/model_files.h"
#include "program/records/room.h"
#include "program/run/agree.h"
#include "program/run/print_run.h"
#include "program/run/stop_signals.h"
#include "program/run/training_loop.h"
#include "program/show/output.h"
#include "train/devices/follow.h"

namespace mxtape {
namespace {

/// On all devices: recipe and data. What train.init names, and the checkpoint that a run goes on from, may be
/// on rank 0's host alone. It is the first to hash a large token file: the others find that on record.
void plan_on_all(RunPlan& plan, Devices* devices) {
  Group* const group = devices ? &devices->group() : nullptr;
  const bool first = !devices || devices->rank() == 0;
  together(group, [&] {
    if (first) plan_through(plan, Station::data);
  });
  std::vector<std::string> recipes;
  if (devices) recipes = group->all_gather(first ? to_toml(plan.recipe) : "", Patience::alone);
  together(group, [&] {
    if (!first) plan.model = recipe_from_toml(recipes.front(), "rank 0's recipe").model;
    plan_through(plan, Station::data);
  });
}

/// Makes the folder say how the run goes on: last, when nothing else can keep it from that. The recipe
/// decides: until it is written, a resume comes to the same divergence again.
void settle(const RunFolder& folder, RunPlan& plan, const Trainer& trainer,
            const std::optional<Divergence>& divergence = {}) {
  Beginning& begin = plan.begin;
  for (const auto& note : set_earlier_aside(folder, begin)) say(stdout, "{}\n", note);
  if (divergence) keep_records(folder, trainer, *divergence);
  write_recipe(folder, begin, trainer.steps_done(), trainer.recipe());
  if (begin.from == Beginning::From::parent)
    write_parent(folder.parent(), plan.branch->parent_run, *begin.file, *begin.turn);
  if (begin.file)
    copy_model_files(folder_of_model_files(*begin.file), folder.path());
  else
    std::filesystem::remove(folder.parent());  // of an earlier attempt
  if (begin.weights) {
    const auto &file = begin.weights->file(), &from = begin.weights->folder();
    write_parent(folder.parent(), from.empty() ? file : from, file, *begin.turn);
    copy_model_files(from, folder.path());
  }
  begin.weights.reset();  // its files need not stay open
  std::fflush(stdout);
}

/// Under the folder's lock, so that nobody else changes what is found there.
void run(RunPlan& plan, Devices* devices) {
  RunFolder folder(plan.folder);
  plan_through(plan);
  if (plan.begin.finished) return print_finished(plan);
  if (devices) devices->communicator().attach(*plan.device);
  ObservedDevice observed(*plan.device, plan.recipe);
  folder.reserve(room_to_start(*plan.memory, plan.recipe));
  print_header(plan, devices);
  auto trainer = open_trainer(plan, observed.backend, devices);
  print_beginning(plan, trainer->steps_done());
  settle(folder, plan, *trainer);
  const Evaluation validation = train_to_the_end(plan, observed, folder, trainer);
  if (devices) devices->announce("end", "0");
  print_result(validation, plan.data->floor, observed.backend.peak_bytes());
  print_sample(observed.backend, *trainer, *plan.data);
  print_paths(folder, trainer->steps_done());
}

}  // namespace

Evaluation train_to_the_end(RunPlan& plan, ObservedDevice& observed, RunFolder& folder,
                            std::unique_ptr<Trainer>& trainer) {
  const StopSignals signals;
  for (;;) {
    std::optional<Divergence> divergence;
    try {
      return TrainingLoop(observed, folder, *plan.data, *trainer, plan.begin.turn).train(plan.words.command);
    } catch (const Divergence& from) {
      divergence = from;
    }
    Devices* const devices = trainer->devices();
    if (devices) devices->announce("wait");  // while files are read
    const std::string lineage = trainer->lineage();
    trainer.reset();  // two would not fit
    plan_back(plan, folder, *divergence, lineage);
    trainer = open_trainer(plan, observed.backend, devices);
    settle(folder, plan, *trainer, divergence);
    print_rollback(plan);
  }
}

void train(RunPlan plan, Devices* devices) {
  outlive_readers();
  plan_on_all(plan, devices);
  if (devices) {
    agree_on_start(*devices, plan);
    devices->lead();
    share_signals(*devices);
    if (devices->rank() > 0) {
      const StopSignals signals;
      return follow(*devices, *plan.data);
    }
  }
  plan_through(plan, Station::folder);
  run(plan, devices);
}

}  // namespace mxtape
