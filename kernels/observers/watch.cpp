#include "kernels/observers/watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/mx_transfer.h"

namespace mxtape {

NumbersSeen numbers_seen(std::span<const float> values) {
  NumbersSeen seen;
  double squares = 0;
  std::int64_t finite = 0, zeros = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = double(values[i]);
    if (!std::isfinite(x)) {
      ++(std::isnan(x) ? seen.nans : seen.infinities);
      if (seen.first_nonfinite < 0) seen.first_nonfinite = std::int64_t(i);
      continue;
    }
    seen.min = finite ? std::min(seen.min, x) : x;
    seen.max = finite ? std::max(seen.max, x) : x;
    squares += x * x;
    zeros += x == 0;
    ++finite;
  }
  if (finite) seen.rms = std::sqrt(squares / double(finite));
  if (!values.empty()) seen.zeros = double(zeros) / double(values.size());
  return seen;
}

void Watch::start(std::vector<std::string> parameters) {
  *this = {};
  parameters_ = std::move(parameters);
  state_ = State::waiting;
}

// The first layer begins the step. A layer after the update is not the step's any more: a step that diverged
// is computed again to find out why.
void Watch::enter(const Seen& seen) {
  if (backward_ && !seen.backward) ++micro_;
  if (!seen.layer.empty() && state_ == State::waiting) state_ = State::on, micro_ = 0;
  if (!seen.layer.empty() && state_ == State::update) state_ = State::off;
  if (seen.layer != layer_ || seen.backward != backward_) looked_at_.clear();
  layer_ = seen.layer;
  backward_ = seen.backward;
}

void Watch::before(const Seen& seen) {
  enter(seen);
  if (const auto* const update = seen.call.as<call::AdamW>()) {
    layer_ = updated_ < parameters_.size() ? parameters_[updated_] : "";
    ++updated_;
    look_at(seen, {{"gradient", update->gradient}}, true);
  }
  look_at(seen, operands_of(seen.call), false);
}

void Watch::after(const Seen& seen) {
  look_at(seen, results_of(seen.call), true);
  if (state_ == State::on && seen.call.as<call::ClipFactor>()) state_ = State::update;
}

/// `again`: even what this layer's pass has seen.
void Watch::look_at(const Seen& seen, std::vector<SeenTensor> tensors, bool again) {
  if (state_ != State::on && state_ != State::update) return;
  for (auto& [name, x] : tensors) {
    if (x.count() == 0) continue;
    const bool new_here = looked_at_.insert(name).second;
    if (!again && !new_here) continue;  // seen when it was rounded
    found_.push_back({micro_, layer_, backward_, std::string(seen.call.name()), std::move(name), x.shape(),
                      x.dtype(), numbers_seen(downloaded(seen.device, x))});
  }
}

}  // namespace mxtape
