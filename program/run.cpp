#include "program/run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/parallel.h"
#include "core/text/program_name.h"
#include "dist/together.h"
#include "kernels/choose/make_backend.h"
#include "program/beginning.h"
#include "program/devices/agree.h"
#include "program/devices/follow.h"
#include "program/devices/plan_text.h"
#include "program/header.h"
#include "program/import.h"
#include "program/model_files.h"
#include "program/output.h"
#include "program/rollback.h"
#include "program/start_needs.h"
#include "program/training_loop.h"
#include "recipes/text/reach_notes.h"
#include "train/memory/memory_budget.h"
#include "train/sampling/sample.h"

namespace mxtape {
namespace {

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

/// A run of which nothing is left to do: the model is there, and nothing is trained or written.
void print_finished(const std::vector<std::string>& notes, std::int64_t steps,
                    const std::filesystem::path& checkpoint) {
  for (const auto& note : notes) say(stdout, "{}\n", note);
  const std::string file = shell_quoted(checkpoint.string());
  say(stdout,
      "all {0} steps of {1} are done: nothing was trained\nto go on, add a larger --train.steps and "
      "--allow-change train.steps\nto use the model: {2} sample {3}, or {2} eval {3}\n",
      steps, checkpoint.string(), program_name(), file);
}

void print_devices(Devices& devices, const Recipe& recipe) {
  say(stdout, "devices     {}\n", devices_text(devices, recipe.train));
  for (const GatherPlan& gather : gather_plans(recipe)) say(stdout, "gather      {}\n", gather_text(gather));
  // It kills the processes two seconds after it has passed a SIGTERM on, and a SIGINT at once.
  if (devices.group().place().launcher == "Open MPI's mpirun")
    say(stdout, "to stop     kill -USR1 of mpirun: after Ctrl-C it leaves no time to save\n");
}

void print_init(const InitialWeights& init, const Turn& turn, const RunFolder& folder) {
  say(stdout, "init        {}\n            content hash {}; moments begin at zero\n", init.text(), turn.hash);
  for (const auto& change : turn.changed) say(stdout, "  {}\n", change);
  for (const auto& note : init.notes()) say(stdout, "  note: {}\n", note);
  const std::string before = initial_hash_of(folder.path());
  if (!before.empty() && before != turn.hash)
    say(stdout, "  note: an earlier attempt here began with weights of content hash {}\n", before);
}

}  // namespace

void run_training(const Recipe& recipe, const RunOptions& options, Devices* devices) {
  outlive_readers();
  TokenFile data;
  together(devices ? &devices->group() : nullptr, [&] {
    data = read_data(recipe);
    if (const auto problems = short_splits(recipe, data); !problems.empty()) throw problems.front();
  });
  if (devices) {
    agree_on_start(*devices, recipe, data);
    devices->lead();
    if (devices->rank() > 0) return follow(*devices, data);
    hear_signals(*devices);
  }
  RunFolder folder(std::filesystem::path(recipe.train.out) / recipe.name);
  Beginning begin = begin_run(recipe, options, folder, data);
  const Recipe& resolved = begin.recipe;
  const Start& start = begin.start;
  std::optional<Turn>& turn = begin.turn;
  std::optional<InitialWeights>& init = begin.init;
  if (begin.finished) return print_finished(begin.notes, resolved.train.steps, *start.checkpoint);
  if (recipe.compute.threads > 0 && !devices) set_threads(int(recipe.compute.threads));
  const auto device = make_backend(resolved.compute.device, resolved.compute.options());
  if (devices) devices->communicator().attach(*device);
  ObservedDevice observed(*device, resolved);
  Backend& backend = observed.backend;
  MemoryBudget budget = MemoryBudget::of(resolved, backend, data);
  if (devices && budget.host) budget.capacity /= devices->group().place().local_size;
  const MemoryPlan plan = memory_plan(resolved);
  require_memory(resolved, plan, budget);
  folder.reserve(room_to_start(plan, resolved));
  auto trainer = std::make_unique<Trainer>(backend, resolved, data, devices);
  print_header(stdout, resolved, data, backend, memory_text(plan, budget), folder.path());
  if (devices) print_devices(*devices, resolved);
  if (std::string lack = lack_of_room(plan, resolved, folder.path()); !lack.empty())
    begin.notes.push_back(std::move(lack));
  if (const std::string nothing = nothing_quantized(resolved); !nothing.empty())
    say(stdout, "note: {}\n", nothing);
  for (const auto& note : begin.notes) say(stdout, "{}\n", note);
  if (begin.branches)
    for (const auto& line : options.branch->lines) say(stdout, "{}\n", line);
  if (init) {
    turn = init->turn(init->load(backend, trainer->model()), resolved.model);
    trainer->load_as_first_does(0);
    trainer->set_lineage(with_turn(init->lineage(), *turn));
    print_init(*init, *turn, folder);
  }
  if (begin.checkpoint) {
    trainer->load(*begin.checkpoint);
    if (turn) trainer->set_lineage(with_turn(trainer->lineage(), *turn));
    for (const Turn& back : turns_of_rollbacks(resolved, begin.known_rollbacks)) {
      trainer->set_lineage(with_turn(trainer->lineage(), back));
      say(stdout, "rollback {}: from step {} to {}\n", back.rollback, back.from, back.step);
    }
    begin.checkpoint.reset();
    if (!begin.branches)
      say(stdout, "resumed from {} at step {}\n", start.checkpoint->string(), trainer->steps_done());
  }
  for (const auto& note : make_way(folder, start)) say(stdout, "{}\n", note);
  write_recipe(folder, start, trainer->steps_done(), trainer->recipe());
  if (begin.branches) write_parent(folder, *options.branch);
  if (start.checkpoint) copy_model_files(folder_of_model_files(*start.checkpoint), folder.path());
  if (!start.checkpoint) std::filesystem::remove(folder.parent());  // of an earlier attempt
  if (init) {
    init->write_parent(folder, *turn);
    copy_model_files(init->folder(), folder.path());
  }
  init.reset();  // its files need not stay open
  std::fflush(stdout);
  const Evaluation validation = train_to_the_end(observed, folder, data, trainer, turn, options.command);
  if (devices) devices->announce("end", "0");
  print_result(stdout, validation, data.floor, backend.peak_bytes());
  print_sample(backend, *trainer, data);
  print_paths(stdout, folder, trainer->steps_done());
}

}  // namespace mxtape
