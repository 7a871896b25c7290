#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "program/metrics/metrics.h"

namespace mxtape {

/// Whether lines on `out` can be written over: a terminal, and not one of TERM=dumb, as editors have.
bool is_screen(std::FILE* out);
/// Columns of the terminal behind `out`, as it is now; 0 if unknown.
std::size_t columns(std::FILE* out);

/// What a person sees of a run. On a screen one line is written over and over, in colour unless NO_COLOR is
/// set; elsewhere at most 40 plain lines appear, at round steps, which reads well in a log.
class Progress {
 public:
  Progress(std::FILE* out, std::int64_t total_steps, std::int64_t steps_done);

  void step(const StepRecord&);
  /// A bar while the validation split is read, on a screen and if it takes long.
  void validating(std::int64_t done, std::int64_t total);
  void validation(std::int64_t step, double loss, std::optional<double> floor, double seconds);
  /// A line that stays.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void overwrite(const std::string& line);
  void keep(const std::string& line);
  std::string eta(std::int64_t step) const;

  std::FILE* out_;
  bool screen_, colour_;
  std::int64_t total_, first_, every_;
  Clock::time_point begin_ = Clock::now(), last_drawn_{};
  double smooth_ms_ = 0;
  std::int64_t steps_seen_ = 0;
  bool line_open_ = false;
};

/// "0m21s", "1h06m", "2d03h".
std::string duration_text(double seconds);

}  // namespace mxtape
