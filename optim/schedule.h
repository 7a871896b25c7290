#pragma once
#include <cstdint>

namespace mxtape {

enum class ScheduleKind : std::uint8_t {
  constant,
  linear,  ///< straight down to final_fraction at the last step
  cosine,  ///< half a cosine down to final_fraction
  wsd,     ///< warm up, stay, then straight down over the last decay_fraction of the steps
};

/// The learning rate's course, as a factor of the peak.
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t warmup_steps = 100;  ///< linear from 0, reached at this step
  float final_fraction = 0.1f;
  float decay_fraction = 0.2f;  ///< wsd only
  bool operator==(const ScheduleConfig&) const = default;
};

/// Factor in [0, 1] for step 0 .. total_steps - 1.
float learning_rate_factor(const ScheduleConfig&, std::int64_t step, std::int64_t total_steps);

}  // namespace mxtape
