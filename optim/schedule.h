#pragma once
#include <cstdint>

namespace mxtape {

enum class ScheduleKind : std::uint8_t {
  constant,
  linear,  ///< straight down to final_fraction, one step past the last
  cosine,  ///< half a cosine down to final_fraction
  wsd,     ///< warm up, stay, then straight down over the last decay_fraction of the steps
};

/// The learning rate's course, as a factor of the peak.
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t warmup_steps = 100;  ///< linear up to the peak, which this step is the first to have
  float final_fraction = 0.1f;
  float decay_fraction = 0.2f;  ///< wsd only
  std::int64_t start = 0;       ///< of a branch: the step that counts as step 0
  bool operator==(const ScheduleConfig&) const = default;
};

/// The step, counted as the run counts, from which the rate goes down: the end of the warm-up, or of wsd's
/// plateau; total_steps for `constant`.
std::int64_t first_decaying_step(const ScheduleConfig&, std::int64_t total_steps);

/// Factor in [0, 1] for step 0 .. total_steps - 1, both counted from `start` on. With W = warmup_steps, N =
/// total_steps, f = final_fraction:
///   step < W   (step + 1) / (W + 1): no step is lost at 0, the peak is reached at step W, as in nanoGPT
///   constant   1
///   linear     1 - (1 - f) u(W)
///   cosine     f + (1 - f) (1 + cos(pi u(W))) / 2
///   wsd        1 - (1 - f) u(max(W, N (1 - decay_fraction)))
/// where u(s) = clamp((step - s) / (N - s), 0, 1); if N <= s it is 0 before s. f is reached at step N, one
/// past the last. Loshchilov & Hutter 2017, arXiv:1608.03983, eq. 5; Hu et al. 2024, arXiv:2404.06395,
/// section 4.1.
float learning_rate_factor(const ScheduleConfig&, std::int64_t step, std::int64_t total_steps);

}  // namespace mxtape
