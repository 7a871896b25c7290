#include "kernels/around/measuring_backend.h"

#include <algorithm>
#include <cmath>

#include "kernels/around/written.h"
#include "kernels/calls_rows.h"
#include "kernels/codec/narrow.h"

namespace mxtape {

void MeasuringBackend::name_weight(const Tensor& weight, std::string layer) {
  layers_[weight.raw()] = layer;
  weights_[std::move(layer)] = weight;
}

void MeasuringBackend::forget_weights() {
  layers_.clear();
  weights_.clear();
}

void MeasuringBackend::start() {
  stop();
  on_ = true;
}

Measurements MeasuringBackend::stop() {
  on_ = false;
  seen_.clear();
  copies_.clear();
  sources_.clear();
  weight_copies_.clear();
  exact_ = {};
  measured_ = nullptr;
  return std::exchange(found_, {});
}

void MeasuringBackend::enter(std::string_view layer, bool backward) {
  layer_ = layer;
  inner_.enter(layer, backward);
}

void MeasuringBackend::dispatch(AnyCall any) {
  if (!on_) return inner_.dispatch(any);
  if (const auto* const update = std::get_if<const call::AdamW*>(&any)) {
    measure_update(**update);
    return forget_written(any);
  }
  inner_.dispatch(any);
  if (const auto* const call = std::get_if<const call::Gemm*>(&any)) measure_unrounded(**call);
  forget_written(any);
  if (const auto* const call = std::get_if<const call::Quantize*>(&any)) measure_operands(**call);
  if (const auto* const call = std::get_if<const call::Recode*>(&any)) follow(**call);
  if (const auto* const call = std::get_if<const call::Gemm*>(&any)) measure_gradient(**call);
  // The product of a copy that was rotated before it was rounded again is no gradient until it is turned
  // back.
  if (const auto* const back = std::get_if<const call::QuantizeBackward*>(&any)) {
    if (measured_ && (*back)->rotated && (*back)->dx.raw() == measured_) {
      const std::string slot = found_.gradients.back().slot;
      found_.gradients.pop_back();
      compare(slot, (*back)->dx);
    }
    measured_ = nullptr;
  }
}

/// The values of a copy with its multiplier are what the copy is; narrow or wide, it is the copy itself.
void MeasuringBackend::follow(const call::Recode& call) {
  const void *const from = call.from.elements.raw(), *const to = call.to.elements.raw();
  if (is_narrow(call.to.layout) || is_narrow(call.from.layout)) {
    copies_.erase(to);
    if (copies_.contains(from)) copies_.insert(to);
    sources_.erase(to);
    if (auto source = sources_.extract(from)) {
      source.key() = to;
      sources_.insert(std::move(source));
    }
    return;
  }
  if (const auto source = sources_.find(from); source != sources_.end()) sources_[to] = source->second;
  if (const auto layer = weight_copies_.find(from); layer != weight_copies_.end())
    weight_copies_[to] = layer->second;
}

/// What stood there is gone.
void MeasuringBackend::forget_written(AnyCall any) {
  std::visit(
      [&](const auto* call) {
        call->each(*call, [&](Role role, std::string_view name, const Tensor& x) {
          if (x && is_written(role, name)) {
            copies_.erase(x.raw());
            sources_.erase(x.raw());
            weight_copies_.erase(x.raw());
          }
        });
      },
      any);
}

MeasuringBackend::Matrix MeasuringBackend::downloaded(const Tensor& x) {
  Matrix m{std::vector<float>(std::size_t(x.count())), x.rows(), x.cols()};
  if (x.dtype() == DType::f32) {
    inner_.download(m.x.data(), x);
    return m;
  }
  std::vector<bf16> narrow(m.x.size());
  inner_.download(narrow.data(), x);
  std::transform(narrow.begin(), narrow.end(), m.x.begin(), [](bf16 v) { return to_f32(v); });
  return m;
}

bool MeasuringBackend::unseen(const std::string& layer, const std::string& slot) const {
  return (!options_.wants || options_.wants(layer, slot)) && !seen_.contains({layer, slot});
}

void MeasuringBackend::measure(const std::string& layer, const Matrix& x, std::span<const Rounded> made) {
  const auto by_tensor = [](const Quantizer& q) { return q.has_tensor_scale(); };
  float amax = 0;
  if (std::any_of(options_.others.begin(), options_.others.end(), by_tensor) ||
      std::any_of(made.begin(), made.end(), [&](const Rounded& r) { return by_tensor(r.by.quantizer); }))
    for (const float v : x.x) amax = std::max(amax, std::fabs(v));
  for (const Rounded& r : made) {
    const Axis axis = r.by.axis;
    const Rotation& rotation = r.by.rotation;
    const std::string slot(name_of(r.site.slot));
    if (!unseen(layer, slot)) continue;
    seen_.emplace(layer, slot);
    // From the start of the summed axis, where blocks and chunks of a rotation begin; lines as many as it
    // takes.
    const bool by_rows = axis == Axis::row;
    const std::int64_t extent = by_rows ? x.cols : x.rows, lines = by_rows ? x.rows : x.cols;
    constexpr std::int64_t longest = 1024;  // a multiple of all chunks and blocks of powers of two
    const std::int64_t along = std::min(extent, longest),
                       across = std::clamp<std::int64_t>(options_.sample / std::max<std::int64_t>(along, 1),
                                                         1, lines);
    const std::int64_t rows = by_rows ? across : along, cols = by_rows ? along : across;
    std::vector<float> window;
    window.reserve(std::size_t(rows * cols));
    for (std::int64_t r = 0; r < rows; ++r)
      window.insert(window.end(), x.x.begin() + r * x.cols, x.x.begin() + r * x.cols + cols);
    if (rotation.size) rotate_reference(window.data(), window.data(), rows, cols, axis, rotation, r.by.signs);
    if (options_.look) options_.look(layer, slot, x.x, x.rows, x.cols);
    const auto add = [&](const Quantizer& q, bool in_use) {
      const ErrorStatistics errors = rotation.size
                                         ? error_statistics(window.data(), rows, cols, axis, q, {})
                                         : error_statistics(window.data(), rows, cols, axis, q, {}, amax);
      found_.operands.push_back({layer, slot, q, in_use, errors});
    };
    add(r.by.quantizer, true);
    for (const Quantizer& q : options_.others)
      if (!(q == r.by.quantizer)) add(q, false);
  }
}

/// The layer of an operand. Copies of weights are made outside of layers, before a step's first one: of the
/// weight itself or, made again, of the forward's copy.
std::string MeasuringBackend::layer_of(const call::Quantize& call) {
  if (!layer_.empty() || tensor_of(call.to.front().site.slot) != "w") return layer_;
  for (const auto* known : {&layers_, &weight_copies_})
    if (const auto layer = known->find(call.x.raw()); layer != known->end()) {
      for (const Rounded& r : call.to) weight_copies_[r.elements.raw()] = layer->second;
      return layer->second;
    }
  return "";
}

bool MeasuringBackend::any_unseen(const std::string& layer, std::span<const Rounded> made) const {
  return std::any_of(made.begin(), made.end(),
                     [&](const Rounded& r) { return unseen(layer, std::string(name_of(r.site.slot))); });
}

void MeasuringBackend::measure_operands(const call::Quantize& call) {
  if (call.to.empty() || call.to.front().site.slot == Slot::none) return;
  const Rounded& first = call.to.front();
  if (first.layout == Layout::stored) return;  // on its way to others
  for (const Rounded& r : call.to) copies_.insert(r.elements.raw());
  const std::string layer = layer_of(call);
  if (layer.empty()) return;
  const std::string_view tensor = tensor_of(first.site.slot);
  const bool is_dy = tensor == "dy", wanted = any_unseen(layer, call.to);
  const bool wants_source = !first.by.again && ((is_dy && unseen(layer, "dgrad.dx")) ||
                                                ((is_dy || tensor == "x") && unseen(layer, "wgrad.dw")));
  // What is rounded again was made from the forward's copy, and that from what counts.
  if (first.by.again)
    if (const auto forward = sources_.find(call.x.raw()); forward != sources_.end())
      for (const Rounded& r : call.to) sources_[r.elements.raw()] = forward->second;
  if (!wanted && !wants_source) return;
  const Matrix x = downloaded(call.x);
  if (wanted) measure(layer, x, call.to);
  if (wants_source)
    for (const Rounded& r : call.to) sources_[r.elements.raw()] = source_of(x, tensor);
}

/// Operands that no call has rounded: they are the tensors themselves.
void MeasuringBackend::measure_unrounded(const call::Gemm& call) {
  if (!options_.unrounded || layer_.empty()) return;
  for (const Rounded* side : {&call.a, &call.b}) {
    const Slot slot = side->site.slot;
    if (!is_linear(slot) || copies_.contains(side->elements.raw()) ||
        !unseen(layer_, std::string(name_of(slot))))
      continue;
    const auto weight = weights_.find(layer_);  // a copy of it may be older than start()
    if (tensor_of(slot) == "w" && (weight == weights_.end() || weight->second.raw() != side->elements.raw()))
      continue;
    const Rounded itself = unrounded(side->elements, side->axis, side->site);
    measure(layer_, downloaded(side->elements), {&itself, 1});
  }
}

void MeasuringBackend::measure_weight(const std::string& layer, const Tensor& x, const Rounded& copy,
                                      const Tensor& multiplier) {
  if (!any_unseen(layer, {&copy, 1})) return;
  Matrix values = downloaded(x);
  if (multiplier) {
    float by = 1;
    inner_.download(&by, multiplier);
    for (float& v : values.x) v *= by;
  }
  measure(layer, values, {&copy, 1});
}

}  // namespace mxtape
