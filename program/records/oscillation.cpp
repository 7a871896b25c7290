#include "program/records/oscillation.h"

#include <algorithm>

#include "kernels/mx_transfer.h"

namespace mxtape {
namespace {

std::int64_t rows_followed(const Shape& weight, std::int64_t sample) {
  constexpr std::int64_t least = 16;
  return std::min(weight[0], std::max(sample / std::max<std::int64_t>(weight[1], 1), least));
}

}  // namespace

Oscillation::Oscillation(Backend& backend, std::vector<LinearWeight> weights, std::int64_t sample,
                         std::uint64_t seed)
    : backend_(backend), sample_(sample), signs_{seed, Purpose::hadamard_signs, 0, 0, 0} {
  for (LinearWeight& weight : weights) followed_.push_back({std::move(weight)});
}

std::vector<float> Oscillation::values_of(const LinearWeight& weight) {
  const Tensor& value = weight.parameter.value;
  return downloaded(backend_, value.part(0, {rows_followed(value.shape(), sample_), value.cols()}));
}

/// With the same draws each time, so that only the weights make a difference.
std::vector<float> Oscillation::rounded(const Followed& one, const std::vector<float>& w) const {
  const std::int64_t cols = one.weight.parameter.value.cols(), rows = std::int64_t(w.size()) / cols;
  std::vector<float> turned = w, y(w.size());
  if (one.rotation.size)
    rotate_reference(turned.data(), turned.data(), rows, cols, Axis::row, one.rotation, signs_);
  const float multiplier =
      quantize_reference(y.data(), turned.data(), rows, cols, Axis::row, one.quantizer, {});
  if (multiplier != 1)
    for (float& v : y) v *= multiplier;
  return y;
}

void Oscillation::begin() {
  on_ = true;
  for (Followed& one : followed_) {
    one.w = values_of(one.weight);
    one.rounded.clear();
    one.moved.assign(one.w.size(), 0);
    one.rounded_moved.assign(one.w.size(), 0);
    one.steps = 0;
  }
}

void Oscillation::look() {
  for (Followed& one : followed_) {
    const LinearQuant& quant = one.weight.quant;
    std::vector<float> w = values_of(one.weight);
    const bool same = one.quantizer == quant.fprop_w && one.rotation == quant.fprop_rotation;
    one.quantizer = quant.fprop_w, one.rotation = quant.fprop_rotation;
    ++one.steps;
    const bool redrawn =
        one.rotation.size && (one.rotation.signs == SignsPer::step || one.rotation.signs == SignsPer::call);
    if (!one.quantizer.is_identity() && !redrawn) {
      if (!same || one.rounded.empty()) one.rounded = rounded(one, one.w);
      std::vector<float> now = rounded(one, w);
      for (std::size_t i = 0; i < w.size(); ++i) {
        one.moved[i] += std::fabs(w[i] - one.w[i]);
        one.rounded_moved[i] += std::fabs(now[i] - one.rounded[i]);
      }
      one.rounded = std::move(now);
    }
    one.w = std::move(w);
  }
}

std::vector<Oscillation::Found> Oscillation::end() {
  on_ = false;
  std::vector<Found> all;
  for (Followed& one : followed_) {
    double moved = 0, rounded_moved = 0;
    std::int64_t count = 0, oscillating = 0;
    for (std::size_t i = 0; i < one.moved.size(); ++i) {
      moved += double(one.moved[i]);
      rounded_moved += double(one.rounded_moved[i]);
      if (one.moved[i] > 0) ++count;
      if (one.moved[i] > 0 && double(one.rounded_moved[i]) >= oscillates_from * double(one.moved[i]))
        ++oscillating;
    }
    if (moved > 0)
      all.push_back({one.weight.layer, one.quantizer, one.steps, std::int64_t(one.w.size()),
                     rounded_moved / moved, double(oscillating) / double(count)});
    one.w = {}, one.rounded = {}, one.moved = {}, one.rounded_moved = {};
  }
  return all;
}

}  // namespace mxtape
