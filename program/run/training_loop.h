#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "kernels/observers/finite.h"
#include "program/records/lineage.h"
#include "program/records/metrics.h"
#include "program/records/telemetry.h"
#include "program/run/run_progress.h"
#include "program/run/trace.h"
#include "train/high_loss.h"
#include "train/trainer.h"

namespace mxtape {

/// A run's device, which must live as long as this, with those who look at it: what runs in the first step of
/// each phase, what the recipe's telemetry asks for, and MXTAPE_CHECK.
struct ObservedDevice {
  Trace trace{};
  Measure measure;
  Finite finite{};
  ObservingBackend backend;

  ObservedDevice(Backend& device, const Recipe& recipe)
      : measure(measuring_options(recipe)), backend(device, {&trace, &measure}) {
    if (Finite::is_asked_for()) backend.add(finite);
  }
};

class RunFolder;
struct RunLog;

/// A run from the step it is at to its end: steps, validations, checkpoints, records, and what happens when a
/// signal comes, a loss is not finite, or a log cannot be written. A checkpoint is written before the
/// validation of its step, so that nothing waits for one. Signals are caught while a StopSignals lives.
class TrainingLoop {
 public:
  /// `turn`: what lies between the checkpoint that this run begins with and its first step.
  TrainingLoop(ObservedDevice&, RunFolder&, const TokenFile&, Trainer&, const std::optional<Turn>& turn);

  /// Trains to the last step, and returns the last validation. `command`: how the run was started, for
  /// messages. Throws Divergence where it shall go back, and Error(interrupted) after a signal, with a
  /// checkpoint written.
  Evaluation train(const std::string& command);

 private:
  void one_step();
  void step_or_skip();
  void validate();
  /// Not planned: a clock, a signal or a log that cannot be written asks for it.
  void save(bool planned = true);
  void retain() const;
  void record(const std::function<void()>& write);
  [[noreturn]] void end_without_log();
  void record_precision(const Trace::Found&);
  void notice_spike(const StepRecord&);
  void notice_high_loss(const StepRecord&);
  void record_rollbacks();
  [[noreturn]] void diverged(const Error&, std::int64_t step, bool replays = true);
  [[noreturn]] void stop(const std::string& where);
  std::string advice(std::int64_t step, bool replays) const;
  void restore(const RunLog&);

  Backend& backend_;
  Trace& trace_;
  RunFolder& folder_;
  const TokenFile& data_;
  Trainer& trainer_;
  TrainConfig config_;
  Metrics metrics_;
  std::optional<Telemetry> telemetry_;
  Progress progress_;
  std::string command_;
  Evaluation last_validation_;
  LossSpike spike_;
  std::optional<double> best_;             // validation loss so far
  std::optional<std::int64_t> best_step_;  // where it was, if a checkpoint of it is kept
  std::int64_t saved_ = -1;                // the step of the last checkpoint
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::int64_t skipped_ = 0;                     // steps in a row
  std::int64_t validated_ = -1, recorded_ = -1;  // the last steps of which that is on record
  std::optional<Error> log_error_;
  bool traced_ = false, said_high_ = false;
  std::vector<Turn> coming_;  // rollbacks to steps after the first one of this loop
};

}  // namespace mxtape
