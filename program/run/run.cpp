#include "program/run/run.h"

#include <cmath>
#include <cstdio>

#include "core/memory/resident.h"
#include "core/text/program_name.h"
#include "dist/together.h"
#include "program/plan/resume.h"
#include "program/plan/rollback.h"
#include "program/records/model_files.h"
#include "program/records/room.h"
#include "program/run/stop_signals.h"
#include "program/show/streams.h"
#include "recipes/text/precision_table.h"
#include "train/devices/follow.h"
#include "train/sampling/sample.h"

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

// What a run says on standard output before and after its steps.

/// Before the first step: version, recipe, seed, the plan's facts, the precision of each layer, notes.
void print_header(const RunPlan& plan, Devices* devices) {
  const Recipe& recipe = plan.recipe;
  say(stdout, "mxtape {}   recipe {}   seed {}\n", MXTAPE_VERSION, recipe.name, recipe.seed);
  for (const auto& fact : plan.facts) say(stdout, "{}\n", fact);
  if (devices) {
    say(stdout, "devices     {}\n", devices_text(*devices, recipe.train));
    for (const GatherPlan& gather : gather_plans(recipe))
      say(stdout, "gather      {}\n", gather_text(gather));
    // It kills the processes two seconds after it has passed a SIGTERM on, and a SIGINT at once.
    if (devices->group().place().launcher == "Open MPI's mpirun")
      say(stdout, "to stop     kill -USR1 of mpirun: after Ctrl-C it leaves no time to save\n");
  }
  say(stdout, "{}", precision_table(recipe));
  for (const auto& note : plan.notes) say(stdout, "note: {}\n", note);
}

/// Where it begins, at `step`: what was loaded, and what changed.
void print_beginning(const RunPlan& plan, std::int64_t step) {
  const Beginning& begin = plan.begin;
  if (begin.from == Beginning::From::weights) {
    const std::string &hash = begin.turn->hash, before = initial_hash_of(plan.folder);
    say(stdout, "init        {}\n            content hash {}; moments begin at zero\n", begin.weights->text(),
        hash);
    for (const auto& change : begin.turn->changed) say(stdout, "  {}\n", change);
    if (!before.empty() && before != hash)
      say(stdout, "  note: an earlier attempt here began with weights of content hash {}\n", before);
  }
  if (begin.from != Beginning::From::checkpoint) return;
  for (const Turn& back : turns_of_rollbacks(plan.recipe, begin.known_rollbacks))
    say(stdout, "rollback {}: from step {} to {}\n", back.rollback, back.from, back.step);
  say(stdout, "resumed from {} at step {}\n", begin.file->string(), step);
}

/// Where it went back to, and what that changes.
void print_rollback(const RunPlan& plan) {
  const Turn turn = turns_of_rollbacks(plan.recipe, plan.begin.known_rollbacks).front();
  for (const auto& note : plan.begin.notes) say(stdout, "{}\n", note);
  say(stdout, "rollback {} of at most {}: from step {} to {}\n", turn.rollback,
      plan.recipe.train.rollback_most, turn.from, plan.begin.file->string());
  for (const auto& change : turn.changed) say(stdout, "  {}\n", change);
  std::fflush(stdout);
}

/// A run of which nothing is left to do: the model is there, and nothing is trained or written.
void print_finished(const RunPlan& plan) {
  for (const auto& note : plan.notes) say(stdout, "{}\n", note);
  const std::string file = shell_quoted(plan.begin.file->string());
  say(stdout,
      "all {0} steps of {1} are done: nothing was trained\nto go on, add a larger --train.steps and "
      "--allow-change train.steps\nto use the model: {2} sample {3}, or {2} eval {3}\n",
      plan.recipe.train.steps, plan.begin.file->string(), program_name(), file);
}

/// Validation loss, perplexity, on how much of the split, the gap to the floor where it is known, and the
/// memory used.
void print_result(const Evaluation& validation, std::optional<double> floor, std::int64_t peak_bytes) {
  const bool whole = validation.windows == validation.of_windows;
  say(stdout, "\nvalidation loss {:.4f} nats per token, perplexity {:.3f}{}\n", validation.loss,
      std::exp(validation.loss),
      whole ? "" : fmt::format(", on the first {} of {} windows", validation.windows, validation.of_windows));
  if (floor)
    say(stdout, "floor           {:.4f} nats per token, gap {:.4f}\n", *floor, validation.loss - *floor);
  say(stdout, "memory          tensors {} at their peak, process {}\n", bytes_text(double(peak_bytes)),
      bytes_text(double(most_resident_bytes())));
}

/// A text that the model goes on with.
void print_sample(Backend& backend, Trainer& trainer, const TokenFile& data) {
  const std::int64_t tokens = trainer.recipe().train.sample_tokens;
  if (tokens == 0) return;
  const SampleOptions options{.tokens = tokens,
                              .temperature = 0.8,  // a little below 1: fewer of the rare slips
                              .tokens_known = data.tokenizer.size(),
                              .seed = trainer.recipe().seed,
                              .pass = trainer.next_pass()};
  std::vector<std::int32_t> text{data.validation[0]};
  const auto drawn = sample(backend, trainer.model(), text, options);
  text.insert(text.end(), drawn.begin(), drawn.end());
  say(stdout, "\nsample, {} tokens at temperature {}:\n{}\n\n", tokens, options.temperature,
      data.tokenizer.decode(text));
}

/// The files of the run.
void print_paths(const RunFolder& folder, std::int64_t step) {
  say(stdout, "checkpoint  {}\nmetrics     {}\nTensorBoard {}\n", folder.checkpoint(step).string(),
      folder.metrics().string(), folder.events().string());
  if (std::filesystem::exists(folder.telemetry()))
    say(stdout, "telemetry   {}\n", folder.telemetry().string());
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
    plan.recipe.train.rollbacks = trainer->recipe().train.rollbacks;  // a switch may have come
    trainer.reset();                                                  // two would not fit
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
