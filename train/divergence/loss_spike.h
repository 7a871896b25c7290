#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace mxtape {

/// Notices a loss that stands out: how many standard deviations it is above the mean of the losses before it.
class LossSpike {
 public:
  static constexpr std::size_t window =
      128;                            ///< losses that are remembered, as llm.c's outlier detector does
  static constexpr double limit = 6;  ///< standard deviations; of normal noise one loss in 10^9 is beyond

  /// z of this loss if it is above `limit` and the window is full. Remembers the loss.
  std::optional<double> look_at(double loss);

 private:
  std::deque<double> losses_;
};

}  // namespace mxtape
