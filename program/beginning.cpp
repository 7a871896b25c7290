#include "program/beginning.h"

#include <algorithm>
#include <string_view>

#include "program/metrics/run_log.h"
#include "program/rollback.h"

namespace mxtape {
namespace {

/// Whether the last validation of a run that has done all its steps is still to come.
bool lacks_validation(const RunPaths& run, std::int64_t step) {
  try {
    const RunLog log = read_run_log(run.path());
    return log.last_step() == step && (log.validation.empty() || log.validation.back().step != step);
  } catch (const Error&) {
    return false;  // nothing is on record: nobody waits for one
  }
}

void note_gemm(const Recipe& asked, Beginning& begin, bool goes_on) {
  const GemmChoice gemm = begin.recipe.compute.gemm;
  const bool chosen = asked.origins.contains("compute.gemm") ||
                      begin.recipe.compute.gemm_kernels() != asked.compute.gemm_kernels();
  if (asked.compute.gemm == GemmChoice::automatic && chosen)
    begin.notes.push_back(
        fmt::format("compute.gemm = auto is {} {}", gemm == GemmChoice::integer ? "integer" : "library",
                    goes_on ? "here, as in the checkpoint" : "on this machine, by its instruction set"));
}

void branch_off(Beginning& begin, const Branch& branch, const RunPaths& run, const TokenFile& data) {
  branch.check_data(data);
  begin.turn = branch.turn;
  if (std::string note = branch.other_parent(run.path()); !note.empty())
    begin.notes.push_back(std::move(note));
}

/// With the run's own checkpoint, or that of --resume FILE.
void go_on(Beginning& begin, const RunOptions& options, const RunPaths& run, const TokenFile& data) {
  CheckpointHeader there = begin.checkpoint->header();
  begin.known_rollbacks = there.recipe.train.rollbacks.size();
  // The run's own: whoever resumes it needs not write them.
  const auto own = rollbacks_after(run, there.recipe);
  auto& written = begin.recipe.train.rollbacks;
  if (written.size() <= own.size() && std::equal(written.begin(), written.end(), own.begin())) {
    if (written.size() < own.size()) begin.recipe.origins["train.rollbacks"] = "the run";
    written = there.recipe.train.rollbacks = own;
  }
  auto changes = check_changes(there, begin.recipe, data.hash, options.allow_change);
  for (const auto& change : changes) begin.notes.push_back("changed " + change);
  std::erase_if(changes,
                [](const std::string& c) { return !changes_numbers(c.substr(0, c.find_first_of(": "))); });
  if (!changes.empty()) begin.turn = Turn{there.step, {}, {}, {}, std::move(changes)};
  const std::int64_t steps = begin.recipe.train.steps;
  begin.finished = there.step == steps && !lacks_validation(run, steps);
}

}  // namespace

void require_reached_starts(const Recipe& recipe, std::int64_t step) {
  require(recipe.schedule.start <= step && recipe.optim.start <= step, ExitCode::usage,
          "recipe {}: schedule.start = {}, optim.start = {}; the run begins at step {}; want none above it: "
          "--fresh sets them, for a branch",
          recipe.name, recipe.schedule.start, recipe.optim.start, step);
}

Beginning begin_run(const Recipe& asked, const RunOptions& options, const RunPaths& run,
                    const TokenFile& data) {
  Beginning begin;
  begin.start = choose_start(run, options.resume, options.branch ? options.branch->turn.step : 0);
  begin.notes = begin.start.notes;
  begin.branches = options.branch && !begin.start.checkpoint;
  if (begin.branches) begin.start.checkpoint = options.branch->checkpoint;
  if (begin.start.checkpoint) {
    begin.checkpoint.emplace(*begin.start.checkpoint);
    require_same_tokenizer(begin.checkpoint->header(), *begin.start.checkpoint, data, asked.data.file);
  } else if (!asked.train.init.empty()) {
    begin.init.emplace(asked.train.init);
    begin.init->check_folder(run.path());
    begin.init->check_tokens(data, asked.data.file);
  }
  require_reached_starts(asked, begin.checkpoint ? begin.checkpoint->header().step : 0);
  begin.recipe = with_vocabulary(asked, data.tokenizer);
  begin.known_rollbacks = asked.train.rollbacks.size();
  const bool goes_on = begin.checkpoint && !begin.branches;
  settle_gemm(begin.recipe.compute, goes_on ? &begin.checkpoint->header().recipe.compute : nullptr);
  validate(begin.recipe);  // what auto became may not go with the recipe's sources
  note_gemm(asked, begin, goes_on);
  if (begin.branches) branch_off(begin, *options.branch, run, data);
  if (goes_on) go_on(begin, options, run, data);
  return begin;
}

}  // namespace mxtape
