#include "program/run/training_loop.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "program/plan/precision_switch.h"
#include "program/plan/rollback.h"
#include "program/records/run_folder.h"
#include "program/records/run_log.h"
#include "program/run/stop_signals.h"

namespace mxtape {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// True at steps n, 2 n, ... and at the last one; n = 0: only at the last one.
bool due(std::int64_t step, std::int64_t every, std::int64_t last) {
  return step == last || (every > 0 && step % every == 0);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TrainingLoop::TrainingLoop(ObservedDevice& observed, RunFolder& folder, const TokenFile& data,
                           Trainer& trainer, const std::optional<Turn>& turn)
    : backend_(observed.backend),
      trace_(observed.trace),
      folder_(folder),
      data_(data),
      trainer_(trainer),
      config_(trainer.recipe().train),
      metrics_(folder.metrics(), folder.events(), trainer.steps_done(), to_toml(trainer.recipe()),
               [&, written_below = turn ? turn->to_json() : ""](const std::string& record) {
                 return record == written_below ||
                        is_lost_turn(record, trainer.steps_done(), trainer.lineage());
               }),
      progress_(stdout, config_.steps, trainer.steps_done()),
      spike_(trainer.recipe().model.vocabulary) {
  if (Finite::is_asked_for() && config_.on_divergence != OnDivergence::stop) {
    progress_.note("MXTAPE_CHECK=1: what it finds ends the run, whatever train.on_divergence says");
    config_.on_divergence = OnDivergence::stop;  // it throws amid a step, on one device of several
  }
  if (!metrics_.note().empty()) progress_.note(metrics_.note());
  if (trainer.recipe().telemetry.every > 0)
    telemetry_.emplace(observed.measure, backend_, trainer, folder.telemetry(), metrics_.events());
  else if (std::filesystem::exists(folder.telemetry()))  // of steps that come again unmeasured
    JsonLines(folder.telemetry(), trainer.steps_done());
  if (telemetry_ && !telemetry_->note().empty()) progress_.note(telemetry_->note());
  if (turn) metrics_.turn(turn->to_json());
  // Of an earlier attempt.
  if (trainer.steps_done() == 0) std::filesystem::remove(folder.precision());
  saved_ = trainer.steps_done();
  const std::int64_t first = first_step(trainer.lineage());
  bool whole = saved_ == first || folder.checkpoints().empty();
  try {
    const RunLog log = read_records(folder.path());
    restore(log);
    whole |= (!log.train.empty() && log.train[0].step <= first + 1) ||
             (!log.turns.empty() && log.turns[0].step <= first + 1);
  } catch (const Error&) {  // no step is on record
  }
  if (config_.keep_best && !whole) {
    progress_.note(
        "metrics.jsonl does not begin with the run: no checkpoint is deleted, as the best is not known");
    config_.keep = std::numeric_limits<std::int64_t>::max();
  }
  record_rollbacks();
}

Evaluation TrainingLoop::train(const std::string& command) {
  command_ = command;
  if (config_.on_divergence == OnDivergence::rollback &&
      !std::filesystem::exists(folder_.checkpoint(trainer_.steps_done()))) {
    saved_ = -1;  // whatever comes, there is one to go back to
    save();
  }
  // A run that was stopped before the validation of its last step.
  const std::int64_t begin = trainer_.steps_done();
  if (recorded_ == begin && validated_ != begin && due(begin, config_.eval_every, config_.steps)) validate();
  while (!trainer_.finished()) one_step();
  if (validated_ != trainer_.steps_done()) validate();
  if (log_error_) end_without_log();
  return last_validation_;
}

void TrainingLoop::one_step() {
  step_or_skip();
  const std::int64_t done = trainer_.steps_done();
  const bool asked = StopSignals::take_save_request(), stopped = StopSignals::received() != 0;
  const bool planned = newest_planned(config_, 0, done) == done || trainer_.finished();
  const bool late = config_.save_minutes > 0 && seconds_since(saved_at_) >= 60 * double(config_.save_minutes);
  if (asked || log_error_ || stopped || late || planned) save(planned);
  if (asked && saved_ == done)
    progress_.note(fmt::format("SIGUSR2: {} is written", folder_.checkpoint(done).string()));
  if (log_error_) end_without_log();
  if (stopped && !trainer_.finished()) stop(fmt::format("after step {}", done));
  if (due(done, config_.eval_every, config_.steps)) validate();
}

/// The records of the step that could not be written get a last chance, as the checkpoint has one.
void TrainingLoop::end_without_log() {
  record([&] { metrics_.flush(); });
  if (telemetry_) record([&] { telemetry_->flush(); });
  fail(log_error_->code(), "{}\n  step {} is saved: {}\n  to go on: {} --resume auto", log_error_->what(),
       saved_, folder_.checkpoint(saved_).string(), command_);
}

void TrainingLoop::stop(const std::string& where) {
  fail(ExitCode::interrupted, "stopped by {} {}; {} is written\nto go on: {} --resume auto",
       StopSignals::name_of(StopSignals::received()), where, folder_.checkpoint(saved_).string(), command_);
}

void TrainingLoop::step_or_skip() {
  const auto changes = plan_changes(trainer_.recipe());
  const bool traced = !traced_ || std::ranges::binary_search(changes, trainer_.steps_done());
  if (traced) {
    // A validation may have made copies of weights before: they are made again, to the same bits, and seen.
    for (auto* parameter : trainer_.model().parameters()) parameter->written(parameter->version);
    trace_.start();
  }
  const auto begin = SteadyClock::now();
  if (telemetry_) telemetry_->before_step();
  Trainer::StepResult result{};
  try {
    result = trainer_.step();
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    if (telemetry_) telemetry_->abandon();
    if (traced) trace_.stop(), traced_ = false;  // the next step is looked at instead
    const bool skips = config_.on_divergence == OnDivergence::skip && skipped_ < config_.skip_most;
    if (!skips) diverged(e, trainer_.steps_done() + 1);
    ++skipped_;
    trainer_.skip_step();
    progress_.note(fmt::format("{}: the step is skipped, {} of at most {} in a row", first_line(e.what()),
                               skipped_, config_.skip_most));
    const nlohmann::ordered_json event{
        {"step", trainer_.steps_done()}, {"event", "skip"}, {"reason", e.what()}};
    return record([&] { metrics_.turn(event.dump()); });
  }
  skipped_ = 0;
  if (traced) record_precision(trace_.stop());
  if (telemetry_) record([&] { telemetry_->after_step(); });
  const StepRecord step = record_of(trainer_, result, seconds_since(begin));
  record([&] { metrics_.step(step); });
  progress_.step(step);
  notice_spike(step);
  notice_high_loss(step);
  for (const Turn& turn : coming_)
    if (turn.step == step.step) record([&] { metrics_.turn(turn.to_json()); });
  if (const auto turn = switch_precision(trainer_, telemetry_)) {
    progress_.note(fmt::format("step {}: {}", turn->step, fmt::join(turn->changed, "; ")));
    record([&] { metrics_.turn(turn->to_json()); });
    folder_.follow();
    record([&] { write_atomically(folder_.recipe(), to_toml(trainer_.recipe())); });
  }
}

/// Goes back if the recipe says so and the run may; else this is its end.
void TrainingLoop::diverged(const Error& e, std::int64_t step, bool replays) {
  if (config_.on_divergence == OnDivergence::rollback) {
    const auto were = std::int64_t(trainer_.recipe().train.rollbacks.size());
    if (were < config_.rollback_most) {
      progress_.note(first_line(e.what()));
      if (log_error_)
        fail(log_error_->code(), "{}\n  to go on: {} --resume auto", log_error_->what(), command_);
      throw Divergence{step, e.what()};
    }
    fail(e.code(), "{}\n  the run has gone back {} times (train.rollback_most){}", e.what(), were,
         advice(step, replays));
  }
  fail(e.code(), "{}{}", e.what(), advice(step, replays));
}

void TrainingLoop::validate() {
  struct Stopped {};
  const auto begin = SteadyClock::now();
  const std::int64_t done = trainer_.steps_done();
  try {
    last_validation_ = trainer_.validate([&](auto windows, auto total) {
      if (StopSignals::received()) throw Stopped{};
      progress_.validating(windows, total);
    });
  } catch (const Stopped&) {
    save(false);
    stop(fmt::format("in the validation after step {}, which comes again", done));
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    diverged(Error(e.code(), fmt::format("step {}: {}", done, e.what())), done, false);
  }
  validated_ = done;
  const double loss = last_validation_.loss;
  record([&] { metrics_.validation(done, loss, data_.floor); });
  progress_.validation(done, loss, data_.floor, seconds_since(begin));
  const bool better = !best_ || loss < *best_;
  if (better) best_ = loss, best_step_ = done;
  if (better && config_.keep_best) saved_ == done ? retain() : save();
}

void TrainingLoop::save(bool planned) {
  const std::int64_t done = trainer_.steps_done();
  if (saved_ == done) return;
  folder_.follow();
  record([&] { metrics_.sync(); });
  if (telemetry_) record([&] { telemetry_->sync(); });
  folder_.release();
  try {
    trainer_.save(folder_.checkpoint(done));
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    if (planned || config_.on_divergence != OnDivergence::rollback) diverged(e, done);
    // Where the run goes back from depends on no clock and no signal.
    progress_.note(fmt::format("step {} is not saved: {}", done, first_line(e.what())));
    saved_at_ = SteadyClock::now();
    folder_.reserve_again();
    return;
  }
  saved_ = done;
  saved_at_ = SteadyClock::now();
  record([&] {
    auto device = backend_.choices();
    device.insert(device.begin(), backend_.description());
    write_atomically(folder_.device(), fmt::format("{}\n", fmt::join(device, "\n")));
  });
  retain();
  if (!trainer_.finished() && !folder_.reserve_again())
    progress_.note(
        fmt::format("{}: there is no room left for the next checkpoint; make some", folder_.path().string()));
}

void TrainingLoop::retain() const {
  // A validation that diverges leads to a checkpoint before that of its own step.
  const std::int64_t sure = newest_planned(config_, first_step(trainer_.lineage()), saved_ - 1);
  folder_.retain(config_.keep, [&](std::int64_t step) {
    return (config_.keep_every > 0 && step % config_.keep_every == 0) ||
           (config_.keep_best && step == best_step_) ||
           (config_.on_divergence == OnDivergence::rollback && step == sure);
  });
}

}  // namespace mxtape
