#include "train/divergence/loss_spike.h"

#include <cmath>

namespace mxtape {

std::optional<double> LossSpike::look_at(double loss) {
  std::optional<double> z;
  if (losses_.size() == window) {
    double sum = 0, squares = 0;
    for (const double x : losses_) sum += x;
    const double mean = sum / double(window);
    for (const double x : losses_) squares += (x - mean) * (x - mean);
    const double deviation = std::sqrt(squares / double(window - 1));
    if (loss - mean > limit * deviation) z = (loss - mean) / deviation;
    losses_.pop_front();
  }
  losses_.push_back(loss);
  return z;
}

}  // namespace mxtape
