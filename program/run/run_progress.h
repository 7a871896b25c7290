#pragma once
#include "program/records/metrics.h"
#include "program/show/progress.h"
#include "train/trainer.h"

namespace mxtape {

/// The trainer's last step, which took so many seconds.
inline StepRecord record_of(const Trainer& trainer, const Trainer::StepResult& step, double seconds) {
  return {.step = trainer.steps_done(),
          .loss = step.loss,
          .norm = step.norm,
          .learning_rate = step.learning_rate,
          .milliseconds = 1e3 * seconds,
          .tokens_per_second = double(trainer.recipe().tokens_per_step()) / seconds};
}

/// What a person sees of a run. On a screen one line is written over and over, in colour unless NO_COLOR is
/// set; elsewhere at most 40 plain lines appear, at round steps, which reads well in a log.
class Progress {
 public:
  Progress(std::FILE* out, std::int64_t total_steps, std::int64_t steps_done);

  void step(const StepRecord&);
  /// A line "validation 3/7 windows" while the validation split is read, on a screen and if it takes long.
  void validating(std::int64_t done, std::int64_t total);
  void validation(std::int64_t step, double loss, std::optional<double> floor, double seconds);
  /// A line that stays.
  void note(const std::string& text);

 private:
  std::FILE* out_;
  Line line_;
  bool colour_;
  std::int64_t total_, first_, every_;
  double smooth_ms_ = 0;
  std::int64_t steps_seen_ = 0;
};

}  // namespace mxtape
