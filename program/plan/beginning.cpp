#include "program/plan/beginning.h"

#include <algorithm>

#include "nn/model.h"
#include "program/models/trained_model.h"
#include "program/plan/resume.h"
#include "program/plan/rollback.h"
#include "program/records/run_log.h"
#include "recipes/knobs.h"
#include "recipes/rollbacks.h"
#include "recipes/text/precision_notes.h"

namespace mxtape {
namespace {

using From = Beginning::From;

/// Whether the last validation of a run that has done all its steps is still to come.
bool lacks_validation(const RunPaths& run, std::int64_t step) {
  try {
    const RunLog log = read_records(run.path());
    return log.last_step() == step && (log.validation.empty() || log.validation.back().step != step);
  } catch (const Error&) {
    return false;  // nothing is on record: nobody waits for one
  }
}

void settle_compute(RunPlan& plan) {
  ComputeConfig& compute = plan.recipe.compute;
  const GemmKernels wanted = compute.gemm_kernels();
  const bool automatic = compute.gemm == GemmChoice::automatic;
  const bool goes_on = plan.begin.from == From::checkpoint && plan.begin.checkpoint;
  settle_gemm(compute, goes_on ? &plan.begin.checkpoint->header().recipe.compute : nullptr);
  validate(plan.recipe);  // what auto became may not go with the recipe's sources
  if (automatic && (plan.recipe.origins.contains("compute.gemm") || compute.gemm_kernels() != wanted))
    plan.notes.push_back(fmt::format(
        "compute.gemm = auto is {} {}", compute.gemm == GemmChoice::integer ? "integer" : "library",
        goes_on ? "here, as in the checkpoint" : "on this machine, by its instruction set"));
}

/// With the run's own checkpoint, or that of --resume FILE.
void go_on(RunPlan& plan, CheckpointHeader there) {
  const RunPaths run(plan.folder);
  Beginning& begin = plan.begin;
  begin.known_rollbacks = there.recipe.train.rollbacks.size();
  // The run's own: whoever resumes it needs not write them. Those that led to later steps come again.
  auto &written = plan.recipe.train.rollbacks, &own = there.recipe.train.rollbacks;
  const auto all = rollbacks_after(run, there.recipe);
  if (written.size() <= all.size() && std::equal(written.begin(), written.end(), all.begin())) {
    own = all;
    while (!own.empty() && rollbacks(there.recipe).back().to > there.step) own.pop_back();
    if (written.size() < own.size()) plan.recipe.origins["train.rollbacks"] = "the run";
    written = own;
  }
  auto changes = check_changes(there, plan.recipe, plan.data->hash, plan.words.allow_change);
  std::string model;
  for (const auto& change : changes)
    if (!keeps_the_model(key_of(change))) model += "\n  " + change;
  const auto ours = parameter_count(plan.recipe.model), theirs = parameter_count(there.recipe.model);
  require(
      ours == theirs, ExitCode::usage,
      "resume: the recipe's model has {} parameters, the checkpoint's {}; want these keys as they were:{}",
      ours, theirs, model);
  for (const auto& change : changes) plan.notes.push_back("changed " + change);
  std::erase_if(changes, [&](const auto& c) { return !changes_numbers(plan.recipe, key_of(c)); });
  if (!changes.empty()) begin.turn = Turn{.step = there.step, .changed = std::move(changes)};
  const std::int64_t steps = plan.recipe.train.steps;
  begin.finished = there.step == steps && !lacks_validation(run, steps);
}

/// The checkpoint, or what train.init names.
void open(RunPlan& plan) {
  Beginning& begin = plan.begin;
  if (begin.file) begin.weights.reset();
  if (begin.file && !begin.checkpoint) begin.checkpoint.emplace(*begin.file);
  if (begin.file || plan.recipe.train.init.empty()) return;
  begin.from = From::weights;
  if (!begin.weights) begin.weights.emplace(plan.recipe.train.init);
  if (plan.writes) begin.weights->check_folder(plan.folder);
}

}  // namespace

void stations::beginning(RunPlan& plan) {
  Beginning& begin = plan.begin;
  if (plan.writes) {
    if (plan.folder.empty()) return;
    Beginning found =
        choose_start(RunPaths(plan.folder), plan.words.resume, plan.branch ? plan.branch->turn.step : 0);
    plan.note(found.notes);
    found.weights = std::move(begin.weights);
    begin = std::move(found);
    if (plan.branch && !begin.file) plan.branch->begin(begin);
  }
  if (begin.from == From::parent)
    for (const auto& line : plan.branch->lines) plan.facts.push_back(line);
  open(plan);
  if (!plan.data) return;
  const std::string& file = plan.recipe.data.file;
  if (begin.checkpoint) require_same_tokenizer(begin.checkpoint->header(), *begin.file, *plan.data, file);
  if (begin.weights) begin.weights->check_tokens(*plan.data, file), plan.note(begin.weights->notes());
  const std::int64_t step = begin.checkpoint ? begin.checkpoint->header().step : 0;
  const std::int64_t schedule = plan.recipe.schedule.start, optim = plan.recipe.optim.start;
  require(std::max(schedule, optim) <= step, ExitCode::usage,
          "recipe {}: schedule.start = {}, optim.start = {}; the run begins at step {}; want none above it: "
          "--fresh sets them, for a branch",
          plan.recipe.name, schedule, optim, step);
  begin.known = true;
}

void stations::settled(RunPlan& plan) {
  Beginning& begin = plan.begin;
  const auto surprises = precision_notes(plan.recipe);  // `auto` GEMMs are no wish for integers
  begin.known_rollbacks = plan.recipe.train.rollbacks.size();
  if (plan.data)
    plan.look([&] {
      plan.recipe = with_vocabulary(plan.recipe, plan.data->tokenizer);
      if (!begin.known) return;
      settle_compute(plan);
      if (begin.from == From::parent) {
        plan.branch->check_data(plan.recipe, *plan.data, plan.words.allow_change);
        if (auto note = plan.branch->other_parent(plan.folder); !note.empty()) plan.notes.push_back(note);
      } else if (plan.writes && begin.checkpoint) {
        go_on(plan, begin.checkpoint->header());
      }
    });
  if (plan.rehearses && !begin.finished) plan.note(surprises);
}

}  // namespace mxtape
