#include "program/plan/rollback.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files/atomic_file.h"
#include "program/records/metrics.h"
#include "recipes/rollbacks.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// Begins at the newest checkpoint of a step before `from` that verifies, a planned one if there is one.
/// Newer ones are rejected: the run goes on from there no more.
Beginning last_good(const RunPaths& folder, std::int64_t from, const TrainConfig& train, std::int64_t first) {
  const auto files = folder.checkpoints();
  for (const bool planned : {true, false})
    for (auto file = files.begin(); file != files.end(); ++file) {
      const std::int64_t step = step_of_checkpoint(*file).value_or(0);
      if (step >= from || (planned && newest_planned(train, first, step) != step)) continue;
      try {
        Beginning begin;
        begin.checkpoint.emplace(*file);
        begin.file = *file, begin.from = Beginning::From::rollback;
        begin.rejected.assign(files.begin(), file);
        return begin;
      } catch (const Error&) {  // an older one serves as well
      }
    }
  return {};
}

/// For people: what the n-th rollback changes.
std::vector<std::string> changes_of(const Recipe& recipe, std::size_t n, const Rollback& one) {
  std::vector<std::string> changes;
  if (!one.same_batches)
    changes.push_back(fmt::format("the batches of {} are passed over", counted(one.from - one.to, "step")));
  for (const PrecisionPhase& phase : recipe.precision.phases)
    if (phase.start_rollback == std::int64_t(n))
      changes.push_back(fmt::format("the precision phase of rollback {} begins", n));
  return changes;
}

}  // namespace

std::int64_t newest_planned(const TrainConfig& train, std::int64_t first, std::int64_t step) {
  std::int64_t newest = first;
  for (const std::int64_t every : {train.save_every, train.keep_every})
    if (every > 0) newest = std::max(newest, step / every * every);
  return newest;
}

bool may_switch(const Recipe& recipe, std::int64_t step) {
  if (recipe.precision.switch_error == 0 || coming_rollbacks(recipe).empty()) return false;
  const auto past = rollbacks(recipe);
  return past.empty() || step > past.back().to;
}

fs::path records_before_rollback(const fs::path& run, std::int64_t n, const char* log) {
  return run / fmt::format("{}.rollback_{}.jsonl", log, n);
}

std::vector<Turn> turns_of_rollbacks(const Recipe& recipe, std::size_t known) {
  std::vector<Turn> turns;
  const auto all = rollbacks(recipe);
  for (std::size_t i = known; i < all.size(); ++i)
    turns.push_back({.step = all[i].to,
                     .changed = changes_of(recipe, i + 1, all[i]),
                     .rollback = std::int64_t(i) + 1,
                     .from = all[i].from});
  return turns;
}

std::vector<std::string> rollbacks_after(const RunPaths& folder, const Recipe& of_checkpoint) {
  const auto& known = of_checkpoint.train.rollbacks;
  try {
    const Recipe latest = recipe_from_toml(read_whole_text(folder.recipe()), folder.recipe().string());
    const auto& all = latest.train.rollbacks;
    if (all.size() >= known.size() && std::equal(known.begin(), known.end(), all.begin())) return all;
  } catch (const Error&) {  // without it the step diverges once more, and the run goes back as it did
  }
  return known;
}

void plan_back(RunPlan& plan, const RunPaths& folder, const Divergence& divergence, std::string lineage) {
  TrainConfig& train = plan.recipe.train;
  plan.folder = folder.path();  // it may have been moved
  plan.begin = last_good(folder, divergence.step, train, first_step(lineage));
  require(plan.begin.file.has_value(), ExitCode::diverged,
          "{}\n  {}: no checkpoint before step {} to go back to", divergence.reason, folder.path().string(),
          divergence.step);
  for (const auto& file : plan.begin.rejected)
    plan.begin.notes.push_back(file.string() + " is set aside: the run goes back to a step before it");
  plan.begin.lineage = std::move(lineage);
  plan.begin.known_rollbacks = train.rollbacks.size();
  const Rollback rollback{divergence.step, plan.begin.checkpoint->header().step, !train.rollback_skip};
  train.rollbacks.push_back(rollback.text());
  plan.recipe.origins["train.rollbacks"] = "the run";
  validate(plan.recipe);  // before anything is written
}

void keep_records(const RunPaths& folder, const Trainer& trainer, const Divergence& divergence) {
  const auto n = std::int64_t(trainer.recipe().train.rollbacks.size());
  const std::int64_t step = trainer.steps_done();
  const nlohmann::ordered_json end{
      {"step", divergence.step}, {"event", "diverged"}, {"reason", divergence.reason}};
  write_atomically(records_before_rollback(folder.path(), n),
                   records_after(folder.metrics(), step) + end.dump() + "\n");
  if (const std::string measured = records_after(folder.telemetry(), step); !measured.empty())
    write_atomically(records_before_rollback(folder.path(), n, "telemetry"), measured);
}

}  // namespace mxtape
