#include "program/rollback.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "core/files/atomic_file.h"
#include "program/metrics/json_lines.h"
#include "program/output.h"
#include "program/resume.h"
#include "program/stop_signals.h"
#include "recipes/phases/rollbacks.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

bool verifies(const fs::path& file) {
  try {
    const CheckpointFile whole(file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The newest checkpoint of a step before `from` that verifies, a planned one if there is one. Newer ones are
/// set aside: the run goes on from there no more.
std::optional<fs::path> last_good(const RunFolder& folder, std::int64_t from, const TrainConfig& train) {
  const auto files = folder.checkpoints();
  for (const bool planned : {true, false})
    for (const auto& file : files) {
      const std::int64_t step = step_of_checkpoint(file).value_or(0);
      if (step >= from || (planned && newest_planned(train, step) != step) || !verifies(file)) continue;
      for (const auto& newer : files) {
        if (newer == file) break;
        folder.set_aside(newer);
        say(stdout, "{} is set aside: the run goes back to a step before it\n", newer.string());
      }
      return file;
    }
  return {};
}

/// What the logs say of the steps after `step`, and why they end.
void keep_records(const RunFolder& folder, std::int64_t n, std::int64_t step, const Divergence& divergence) {
  const nlohmann::ordered_json end{
      {"step", divergence.step}, {"event", "diverged"}, {"reason", divergence.reason}};
  write_atomically(records_before_rollback(folder.path(), n),
                   records_after(folder.metrics(), step) + end.dump() + "\n");
  if (const std::string measured = records_after(folder.telemetry(), step); !measured.empty())
    write_atomically(records_before_rollback(folder.path(), n, "telemetry"), measured);
}

/// For people: what the n-th rollback changes.
std::vector<std::string> changes_of(const Recipe& recipe, std::size_t n, const Rollback& one) {
  std::vector<std::string> changes;
  if (!one.same_batches)
    changes.push_back(fmt::format("the batches of {} step{} are passed over", one.from - one.to,
                                  one.from - one.to == 1 ? "" : "s"));
  for (const PrecisionPhase& phase : recipe.precision.phases)
    if (phase.start_rollback == std::int64_t(n))
      changes.push_back(fmt::format("the precision phase of rollback {} begins", n));
  return changes;
}

}  // namespace

std::int64_t newest_planned(const TrainConfig& train, std::int64_t step) {
  if (train.save_every == 0 && train.keep_every == 0) return step;
  std::int64_t newest = 0;
  for (const std::int64_t every : {train.save_every, train.keep_every})
    if (every > 0) newest = std::max(newest, step / every * every);
  return newest;
}

fs::path records_before_rollback(const fs::path& run, std::int64_t n, const char* log) {
  return run / fmt::format("{}.rollback_{}.jsonl", log, n);
}

std::vector<Turn> turns_of_rollbacks(const Recipe& recipe, std::size_t known) {
  std::vector<Turn> turns;
  const auto all = rollbacks(recipe);
  for (std::size_t i = known; i < all.size(); ++i) {
    Turn turn;
    turn.step = all[i].to;
    turn.from = all[i].from;
    turn.rollback = std::int64_t(i) + 1;
    turn.changed = changes_of(recipe, i + 1, all[i]);
    turns.push_back(std::move(turn));
  }
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

std::unique_ptr<Trainer> go_back(Backend& backend, RunFolder& folder, const TokenFile& data,
                                 std::unique_ptr<Trainer> diverged, const Divergence& divergence) {
  Recipe recipe = diverged->recipe();
  Devices* const devices = diverged->devices();
  const std::string lineage = diverged->lineage();
  if (devices) devices->announce("wait");  // while files are read
  diverged.reset();
  const auto file = last_good(folder, divergence.step, recipe.train);
  require(file.has_value(), ExitCode::diverged, "{}\n  {}: no checkpoint before step {} to go back to",
          divergence.reason, folder.path().string(), divergence.step);
  Start start;
  start.checkpoint = *file;
  const CheckpointFile checkpoint(*file);
  const std::int64_t step = checkpoint.header().step;
  const std::size_t known = recipe.train.rollbacks.size();
  const Rollback rollback{divergence.step, step, !recipe.train.rollback_skip};
  recipe.train.rollbacks.push_back(rollback.text());
  recipe.origins["train.rollbacks"] = "the run";
  validate(recipe);  // before anything is written
  const Turn turn = turns_of_rollbacks(recipe, known).front();
  // The recipe decides: until it is written, a resume comes to the same divergence again.
  keep_records(folder, turn.rollback, step, divergence);
  write_recipe(folder, start, step, recipe);
  auto trainer = std::make_unique<Trainer>(backend, recipe, data, devices);
  trainer->load(checkpoint);
  trainer->set_lineage(with_turn(lineage, turn));
  say(stdout, "rollback {} of at most {}: from step {} to {}\n", turn.rollback, recipe.train.rollback_most,
      divergence.step, file->string());
  for (const auto& change : turn.changed) say(stdout, "  {}\n", change);
  std::fflush(stdout);
  return trainer;
}

Evaluation train_to_the_end(ObservedDevice& observed, RunFolder& folder, const TokenFile& data,
                            std::unique_ptr<Trainer>& trainer, const std::optional<Turn>& turn,
                            const std::string& command) {
  const StopSignals signals;
  std::optional<Turn> before_first = turn;
  for (;;) {
    std::optional<Divergence> divergence;
    {
      TrainingLoop loop(observed, folder, data, *trainer, before_first);
      divergence = loop.train(command);
      if (!divergence) return loop.last_validation();
    }
    before_first.reset();
    trainer = go_back(observed.backend, folder, data, std::move(trainer), *divergence);
  }
}

}  // namespace mxtape
