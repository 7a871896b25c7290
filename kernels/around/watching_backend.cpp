#include "kernels/around/watching_backend.h"

#include "kernels/calls_rows.h"

#include <algorithm>
#include <cmath>

namespace mxtape {
namespace {

template <class T>
std::vector<T> downloaded(Backend& backend, const Tensor& x) {
  std::vector<T> host(std::size_t(x.count()));
  backend.download(host.data(), x);
  return host;
}

float value_of(float x) { return x; }
float value_of(bf16 x) { return to_f32(x); }

template <class T>
NumbersSeen numbers_of(const std::vector<T>& values) {
  NumbersSeen seen;
  double squares = 0;
  std::int64_t finite = 0, zeros = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = double(value_of(values[i]));
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

}  // namespace

void WatchingBackend::start() {
  seen_.clear();
  looked_at_.clear();
  micro_ = 0;
  state_ = State::waiting;
}

// The first layer that is entered begins the step. A layer that is entered after the update is not the step's
// any more: a step that diverged is computed again to find out why.
void WatchingBackend::enter(std::string_view layer, bool backward) {
  if (backward_ && !backward) ++micro_;
  if (!layer.empty() && state_ == State::waiting) state_ = State::on, micro_ = 0;
  if (!layer.empty() && state_ == State::update) state_ = State::off;
  if (layer != layer_ || backward != backward_) looked_at_.clear();
  layer_ = layer;
  backward_ = backward;
  inner_.enter(layer, backward);
}

void WatchingBackend::dispatch(AnyCall any) {
  const bool watched = state_ == State::on || state_ == State::update;
  if (!watched) return inner_.dispatch(any);
  const std::string kernel(std::visit([](const auto* call) { return call->name; }, any));
  const auto* const update = std::get_if<const call::AdamW*>(&any);
  if (update) layer_ = parameters_[(*update)->parameter.raw()];
  if (update) look_at(kernel, {{"gradient", (*update)->gradient}}, Of::results);
  look_at(kernel, operands_of(any), Of::operands);
  inner_.dispatch(any);
  look_at(kernel, results_of(any), Of::results);
  if (std::holds_alternative<const call::ClipFactor*>(any)) state_ = State::update;
  if (update) layer_.clear();
}

void WatchingBackend::look_at(const std::string& kernel, std::vector<SeenTensor> tensors, Of of) {
  for (auto& [name, x] : tensors) {
    if (x.count() == 0) continue;
    const bool new_here = looked_at_.emplace(name, x.raw()).second;
    if (of == Of::operands && !new_here) continue;  // seen when it was rounded
    const NumbersSeen numbers = x.dtype() == DType::bf16 ? numbers_of(downloaded<bf16>(inner_, x))
                                                         : numbers_of(downloaded<float>(inner_, x));
    seen_.push_back({micro_, layer_, backward_, kernel, std::move(name), x.shape(), x.dtype(), numbers});
  }
}

}  // namespace mxtape
