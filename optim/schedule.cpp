#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace mxtape {

std::int64_t first_decaying_step(const ScheduleConfig& c, std::int64_t total_steps) {
  if (c.kind == ScheduleKind::constant) return total_steps;
  const double plateau = c.kind == ScheduleKind::wsd
                             // 0.9f is a hair below 0.9: a plateau that ends a hair after a step ends there.
                             ? double(total_steps - c.start) * (1 - double(c.decay_fraction) - 0x1p-24)
                             : 0;
  return c.start + std::max(c.warmup_steps, std::int64_t(std::ceil(plateau)));
}

float learning_rate_factor(const ScheduleConfig& c, std::int64_t step, std::int64_t total_steps) {
  require(step >= c.start && total_steps > c.start,
          "schedule: step {} of {}, counted from {}; want a step from there on, and at least one", step,
          total_steps, c.start);
  step -= c.start, total_steps -= c.start;
  if (step < c.warmup_steps) return float(double(step + 1) / double(c.warmup_steps + 1));
  const double floor = c.final_fraction, last = double(total_steps), at = double(step);
  const auto share = [&](double from) {  // 0 up to `from`, 1 at total_steps
    return last > from ? std::clamp((at - from) / (last - from), 0.0, 1.0) : double(at >= from);
  };
  switch (c.kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
      return float(1 - (1 - floor) * share(double(c.warmup_steps)));
    case ScheduleKind::cosine:
      return float(floor +
                   (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * share(double(c.warmup_steps)))));
    case ScheduleKind::wsd:
      return float(1 - (1 - floor) * share(std::max(double(c.warmup_steps), last * (1 - c.decay_fraction))));
  }
  fail(ExitCode::internal, "schedule: kind {} has no formula", int(c.kind));
}

}  // namespace mxtape
