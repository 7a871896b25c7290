// What a run's loop notices, writes down and advises.
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files/atomic_file.h"
#include "core/text/program_name.h"
#include "program/plan/rollback.h"
#include "program/records/run_folder.h"
#include "program/records/run_log.h"
#include "program/run/training_loop.h"
#include "recipes/text/precision_table.h"
#include "train/high_loss.h"

namespace mxtape {

/// What the steps before this one leave behind in the loop, from their records.
void TrainingLoop::restore(const RunLog& log) {
  for (const auto& point : log.train) (void)spike_.look_at(point.loss);
  recorded_ = log.last_step();
  for (const auto& turn : log.turns) said_high_ |= turn.event == "high_loss";
  for (auto turn = log.turns.rbegin(); turn != log.turns.rend(); ++turn)
    if (turn->event == "skip" && turn->step == recorded_ - skipped_) ++skipped_;
  for (const auto& point : log.validation) {
    validated_ = point.step;
    if (best_ && *best_ <= point.loss) continue;
    best_ = point.loss, best_step_ = point.step;
  }
}

/// The rollbacks that led to the step at which this loop begins, unless they are on record. Those that led to
/// later ones, which another took back, are on record again when these come.
void TrainingLoop::record_rollbacks() {
  // Asked of the file itself: a log in which no step is left is no RunLog.
  std::set<std::int64_t> known;
  std::ifstream in(folder_.metrics());
  for (std::string line; std::getline(in, line);)
    if (const auto event = nlohmann::json::parse(line, nullptr, false); event.contains("number"))
      known.insert(event.value("number", std::int64_t(0)));
  for (const Turn& turn : turns_of_rollbacks(trainer_.recipe(), 0)) {
    if (turn.step > trainer_.steps_done()) coming_.push_back(turn);
    if (turn.step != trainer_.steps_done() || known.contains(turn.rollback)) continue;
    auto event = nlohmann::ordered_json::parse(turn.to_json());
    try {
      const std::string text = read_whole_text(records_before_rollback(folder_.path(), turn.rollback));
      event["reason"] =
          nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1)).at("reason");
    } catch (const std::exception&) {  // the file is gone, and what was said there
    }
    record([&] { metrics_.turn(event.dump()); });
  }
}

void TrainingLoop::notice_spike(const StepRecord& step) {
  const auto spike = spike_.look_at(step.loss);
  if (!spike) return;
  nlohmann::ordered_json event{{"step", step.step}, {"event", "spike"}, {"z", spike->z}};
  if (spike->unlearned) event["unlearned"] = *spike->unlearned;
  progress_.note(
      spike->unlearned
          ? fmt::format("step {}: the loss {:.4f} gives back {:.0f} % of what was learned; a lower "
                        "optim.learning_rate or a longer schedule.warmup_steps may prevent that",
                        step.step, step.loss, 100 * *spike->unlearned)
          : fmt::format("step {}: the loss {:.4f} is {:.1f} standard deviations above the last {}", step.step,
                        step.loss, spike->z, LossSpike::window));
  record([&] { metrics_.turn(event.dump()); });
}

/// Says once in a run that its loss is worse than an untrained model's may be, or that it will be.
void TrainingLoop::notice_high_loss(const StepRecord& step) {
  if (said_high_) return;
  std::string remark = remark_on_loss(trainer_.recipe(), step.step, step.loss);
  if (remark.empty() && step.step == 1) remark = remark_on_start(trainer_.recipe());
  if (remark.empty()) return;
  said_high_ = true;
  progress_.note(fmt::format("step {}: {}", step.step, remark));
  const nlohmann::ordered_json event{{"step", step.step}, {"event", "high_loss"}, {"reason", remark}};
  record([&] { metrics_.turn(event.dump()); });
}

/// What a run that diverged at this step, or in the validation after it, can do.
std::string TrainingLoop::advice(std::int64_t step, bool replays) const {
  const auto files = folder_.checkpoints();
  std::string replay;
  if (replays)
    replay = fmt::format("\n  every tensor of that step: {} replay {} --step {}",
                         shell_quoted(program_name()), shell_quoted(folder_.path().string()), step);
  if (saved_ == trainer_.recipe().train.steps)
    return fmt::format("\n  all steps are done; {} holds what they led to", files.front().string());
  const auto file = std::ranges::find_if(
      files, [&](const auto& one) { return step_of_checkpoint(one).value_or(0) < step; });
  if (file == files.end())
    return fmt::format("{}\n  no checkpoint before it: train.save_every is {}, train.save_minutes {}",
                       first_step(trainer_.lineage()) > 0 ? "" : replay,  // of a branch there is none
                       config_.save_every, config_.save_minutes);
  std::string command = command_;  // without the rate that failed
  for (std::size_t at; (at = command.find(" --optim.learning_rate")) != std::string::npos;)
    command.erase(at, command.find(' ', command.find_first_of("= ", at + 1) + 1) - at);
  command += " --resume auto --allow-change optim";
  if (file != files.begin())  // nobody resumes from an older one
    command =
        fmt::format("{} train --from {} {}", shell_quoted(program_name()),
                    shell_quoted(fmt::format("{}@{}", folder_.path().string(), *step_of_checkpoint(*file))),
                    shell_quoted(fmt::format("--name={}-again", trainer_.recipe().name)));
  return fmt::format(
      "{}\n  the last checkpoint before it is {}\n  to go on with, say, half the learning rate: {} "
      "--optim.learning_rate={}",
      replay, file->string(), command, trainer_.recipe().optim.learning_rate / 2);
}

/// What ran must be what was asked for; then it is on record.
void TrainingLoop::record_precision(const Trace::Found& trace) {
  traced_ = true;
  const Recipe& recipe = trainer_.recipe();
  const PrecisionPlan plan = precision_plan(recipe, trainer_.steps_done() - 1);
  const auto lines = differences(plan, trace, recipe.compute.device, recipe.compute.gemm_kernels());
  require(lines.empty(), ExitCode::internal, "what ran is not what was asked for:\n  {}",
          fmt::join(lines, "\n  "));
  folder_.follow();
  record([&] {
    std::ofstream out(folder_.precision(), std::ios::app);
    out << fmt::format("seen in step {}\n{}", trainer_.steps_done(),
                       precision_table(realised(plan, recipe.compute.device), recipe.compute.gemm_kernels()));
    require(out.flush().good(), ExitCode::resource, "{}: cannot be written", folder_.precision().string());
  });
}

/// Logs never decide about a checkpoint: the first one that cannot be written ends the run once it is saved.
void TrainingLoop::record(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& e) {
    if (e.code() == ExitCode::peer) throw;  // telemetry gathers weights
    if (!log_error_) log_error_ = e;
  }
}

}  // namespace mxtape
