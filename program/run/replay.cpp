#include "program/run/replay.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/files/atomic_file.h"
#include "program/plan/rollback.h"
#include "program/plan/run_plan.h"
#include "program/records/run_log.h"
#include "program/records/run_name.h"
#include "program/run/run_progress.h"
#include "recipes/knobs.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

Recipe read_resolved(const fs::path& file) { return recipe_from_toml(read_whole_text(file), file.string()); }

/// The recipe with which a step was trained, and whether it is another one than that of steps before it.
struct Course {
  Recipe recipe;
  std::vector<std::pair<std::int64_t, Recipe>>
      until;  ///< recipes of steps up to one before the step, ascending
};

Course course_to(const fs::path& run, std::int64_t step) {
  Course course;
  fs::path file = run / "recipe.toml";
  for (const auto& [last, earlier] : RunPaths(run).earlier_recipes()) {  // the last one first
    if (last >= step)
      file = earlier;
    else
      course.until.insert(course.until.begin(), {last, read_resolved(earlier)});
  }
  course.recipe = read_resolved(file);
  return course;
}

/// The first change that gives other numbers; empty: there is none. Rollbacks apart, which hold for the steps
/// after them alone.
std::string changed_numbers(Recipe a, const Recipe& b) {
  a.train.rollbacks = b.train.rollbacks;
  for (const std::string& change : differences(a, b))
    if (changes_numbers(a, key_of(change))) return change;
  return "";
}

/// What the run has recorded: losses by step, steps that were skipped, the last step.
struct Records {
  std::map<std::int64_t, double> losses;
  std::set<std::int64_t> skipped;
  std::map<std::int64_t, std::string> data;  ///< of changes: by the last step before
  std::int64_t first = 1;                    ///< of a branch: the one after it
  std::int64_t last = 0;                     ///< on record; the one after it may have diverged

  void read(const fs::path& file, std::int64_t from_step) {
    std::erase_if(losses, [&](const auto& one) { return one.first >= from_step; });
    const RunLog log = read_records(file);
    for (const auto& point : log.train)
      if (point.step >= from_step) losses[point.step] = point.loss;
    for (const auto& turn : log.turns) {
      if (turn.event == "branch") first = turn.step + 1;
      if (turn.event == "skip") skipped.insert(turn.step);
      if (!turn.data.empty()) data[turn.step] = turn.data;
    }
    last = std::max(log.last_step(), first - 1);
  }
};

constexpr const char* keep_some = "keep some with train.keep_every";

/// Begins at the newest checkpoint before the step that the same rollbacks led to.
Beginning begin_before(std::int64_t step, const fs::path& run, const Recipe& recipe) {
  Beginning begin;
  for (const auto& file : list_checkpoints(run)) {
    if (step_of_checkpoint(file).value_or(step) >= step) continue;
    try {
      CheckpointFile checkpoint(file);
      if (checkpoint.header().recipe.train.rollbacks.size() > recipe.train.rollbacks.size()) continue;
      begin.file = file, begin.checkpoint = std::move(checkpoint);
      break;
    } catch (const Error&) {  // an earlier one serves as well
    }
  }
  return begin;
}

/// The content hash of the data of a step; empty where that is not known.
std::string data_hash_at(std::int64_t step, const fs::path& run, const Records& records) {
  if (records.data.empty()) return data_hash_of(run);
  const auto next = records.data.lower_bound(step);
  if (next != records.data.end()) return next->second.substr(0, next->second.find(' '));
  const std::string& last = records.data.rbegin()->second;
  return last.substr(last.rfind(' ') + 1);
}

}  // namespace

const Watch::Found* Replay::first_nonfinite() const {
  for (const auto& seen : tensors)
    if (seen.numbers.first_nonfinite >= 0) return &seen;
  return nullptr;
}

Replay replay(const fs::path& run, const ReplayOptions& options) {
  require(fs::is_directory(run), ExitCode::data, "{}: want the folder of a run", run.string());
  std::optional quiet = quiet_folder(run, "wait until it ends, or stop it");
  const std::int64_t step = options.step;
  Replay result;
  Course course = course_to(run, step);
  Recipe& recipe = course.recipe;
  Records records;
  records.read(run / "metrics.jsonl", 1);
  if (options.rollback > 0) {
    const Recipe latest = read_resolved(run / "recipe.toml");
    const auto turns = turns_of_rollbacks(latest, 0);
    require(options.rollback <= std::int64_t(turns.size()), ExitCode::usage,
            "--rollback {}: {} has {} rollbacks and switches", options.rollback, run.string(), turns.size());
    const Turn& turn = turns[std::size_t(options.rollback - 1)];
    require(turn.from != turn.step, ExitCode::usage,
            "--rollback {}: a switch at step {}, which took no step back", options.rollback, turn.step);
    const auto earlier = RunPaths(run).earlier_recipes();
    const auto before = earlier.find(turn.step);
    recipe = before == earlier.end() ? latest : read_resolved(before->second);
    recipe.train.rollbacks = latest.train.rollbacks;
    recipe.train.rollbacks.resize(std::size_t(options.rollback - 1));
    records.read(records_before_rollback(run, options.rollback), turn.step + 1);
    records.last = turn.from - 1;
  }
  const std::int64_t last = std::min(records.last + 1, recipe.train.steps);
  std::int64_t first = records.losses.empty() ? records.first : records.losses.begin()->first;
  if (!records.skipped.empty()) first = std::min(first, *records.skipped.begin());
  require(step >= first && step <= last, ExitCode::usage,
          "--step {}: of {} there are steps {} to {} to replay", step, run.string(), first, last);

  RunPlan plan(recipe);
  plan.begin = begin_before(step, run, recipe);
  result.checkpoint = plan.begin.file;
  const std::string hash = result.checkpoint ? "" : initial_hash_of(run);
  require(
      result.checkpoint || !hash.empty() || !fs::exists(run / "parent.json"), ExitCode::data,
      "{}: no checkpoint of its own before step {}, and a branch can be replayed from its first one on; {}",
      run.string(), step, keep_some);
  if (plan.begin.checkpoint) result.begin = plan.begin.checkpoint->header().step;
  for (const auto& [until, earlier] : course.until)
    require(until <= result.begin || changed_numbers(earlier, recipe).empty(), ExitCode::data,
            "{}: the recipe changed at step {}, and no checkpoint from there to step {} is left; {}",
            run.string(), until, step - 1, keep_some);

  const bool changed_there =
      std::ranges::any_of(course.until, [&](const auto& one) { return one.first == result.begin; });
  if (plan.begin.checkpoint && !changed_there && options.rollback == 0) {
    const std::string change = changed_numbers(plan.begin.checkpoint->header().recipe, recipe);
    require(change.empty(), ExitCode::data, "{}: the run's recipe was edited since ({}); undo that",
            result.checkpoint->string(), change);
  }

  compute_again(plan, options.device, options.data);
  plan_through(plan, Station::data);
  const std::string trained_with = data_hash_at(step, run, records);
  require(trained_with.empty() || trained_with == plan.data->hash, ExitCode::data,
          "{}: its content is not what {} was trained with at step {}; name that with --data",
          plan.recipe.data.file, run.string(), step);
  Watch watch;
  std::optional<ObservingBackend> watched;
  std::unique_ptr<Trainer> trainer;
  try {
    plan_through(plan, Station::memory);
    trainer = open_trainer(plan, watched.emplace(*plan.device, std::vector<Observer*>{&watch}));
    if (!hash.empty())
      require(plan.begin.turn->hash == hash, ExitCode::data,
              "train.init: {} has weights of content hash {}, the run began with {}", plan.recipe.train.init,
              plan.begin.turn->hash, hash);
  } catch (const Error& e) {  // of the weights that it began with
    if (hash.empty() || e.code() != ExitCode::data) throw;
    fail(e.code(), "{}; no checkpoint before that step is left; {}", e.what(), keep_some);
  }
  plan.begin.weights.reset();
  quiet.reset();

  if (options.on_start && result.begin + 1 < step) options.on_start(result.begin + 1, step - 1);
  while (trainer->steps_done() + 1 < step) {
    const auto begin = std::chrono::steady_clock::now();
    Trainer::StepResult done{};
    try {
      done = trainer->step();
    } catch (const Error& e) {
      if (e.code() != ExitCode::diverged || !records.skipped.contains(trainer->steps_done() + 1)) throw;
      trainer->skip_step();
      continue;
    }
    if (options.on_step) options.on_step(record_of(*trainer, done, seconds_since(begin)));
  }
  std::vector<std::string> parameters;
  for (const Parameter* parameter : trainer->model().parameters()) parameters.push_back(parameter->name);
  watch.start(std::move(parameters));
  try {
    result.loss = trainer->step().loss;
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    result.divergence = e.what();
  }
  result.tensors = watch.found();
  if (const auto found = records.losses.find(step); found != records.losses.end())
    result.recorded = found->second;
  result.recipe = std::move(plan.recipe);
  return result;
}

}  // namespace mxtape
