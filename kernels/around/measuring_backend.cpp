#include "kernels/around/measuring_backend.h"

#include <algorithm>
#include <cmath>

#include "kernels/around/operand_slots.h"
#include "kernels/around/written.h"

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
  if (const auto* const call = std::get_if<const call::Dequantize*>(&any)) follow(**call);
  if (const auto* const call = std::get_if<const call::PackCopy*>(&any))
    follow((*call)->x.values, (*call)->y.codes);
  if (const auto* const call = std::get_if<const call::UnpackCopy*>(&any))
    follow((*call)->x.codes, (*call)->y.values);
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

/// The values of a copy with its multiplier are what the copy is.
void MeasuringBackend::follow(const call::Dequantize& call) {
  if (const auto source = sources_.find(call.copy.values.raw()); source != sources_.end())
    sources_[call.y.raw()] = source->second;
  if (const auto layer = weight_copies_.find(call.copy.values.raw()); layer != weight_copies_.end())
    weight_copies_[call.y.raw()] = layer->second;
}

void MeasuringBackend::follow(const Tensor& from, const Tensor& to) {
  copies_.erase(to.raw());
  if (copies_.contains(from.raw())) copies_.insert(to.raw());
  sources_.erase(to.raw());
  if (auto source = sources_.extract(from.raw())) {
    source.key() = to.raw();
    sources_.insert(std::move(source));
  }
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

void MeasuringBackend::measure(const std::string& layer, std::string_view tensor, const Matrix& x,
                               std::span<const QuantizedCopy> copies) {
  const auto by_tensor = [](const Quantizer& q) { return q.has_tensor_scale(); };
  float amax = 0;
  if (std::any_of(options_.others.begin(), options_.others.end(), by_tensor) ||
      std::any_of(copies.begin(), copies.end(), [&](const auto& copy) { return by_tensor(copy.quantizer); }))
    for (const float v : x.x) amax = std::max(amax, std::fabs(v));
  for (const QuantizedCopy& copy : copies) {
    const std::string slot = operand_slot(tensor, copy.axis);
    if (!unseen(layer, slot)) continue;
    seen_.emplace(layer, slot);
    // From the start of the summed axis, where blocks and chunks of a rotation begin; lines as many as it
    // takes.
    const bool by_rows = copy.axis == Axis::row;
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
    if (copy.rotation.size)
      rotate_reference(window.data(), window.data(), rows, cols, copy.axis, copy.rotation, copy.signs);
    if (options_.look) options_.look(layer, slot, x.x, x.rows, x.cols);
    const auto add = [&](const Quantizer& q, bool in_use) {
      const ErrorStatistics errors =
          copy.rotation.size ? error_statistics(window.data(), rows, cols, copy.axis, q, {})
                             : error_statistics(window.data(), rows, cols, copy.axis, q, {}, amax);
      found_.operands.push_back({layer, slot, q, in_use, errors});
    };
    add(copy.quantizer, true);
    for (const Quantizer& q : options_.others)
      if (!(q == copy.quantizer)) add(q, false);
  }
}

/// The layer of an operand. Copies of weights are made outside of layers, before a step's first one: "w" of
/// the weight itself, "w again" of the forward's copy.
std::string MeasuringBackend::layer_of(const call::Quantize& call) {
  if (!layer_.empty() || !call.slot.starts_with("w")) return layer_;
  for (const auto* known : {&layers_, &weight_copies_})
    if (const auto layer = known->find(call.x.raw()); layer != known->end()) {
      for (const QuantizedCopy& copy : call.copies) weight_copies_[copy.values.raw()] = layer->second;
      return layer->second;
    }
  return "";
}

void MeasuringBackend::measure_operands(const call::Quantize& call) {
  if (call.slot.empty() || call.copies.empty()) return;
  for (const QuantizedCopy& copy : call.copies) copies_.insert(copy.values.raw());
  const std::string layer = layer_of(call);
  if (layer.empty()) return;
  const bool again = call.slot.ends_with(" again"), is_dy = call.slot == "dy";
  const bool wanted = std::any_of(call.copies.begin(), call.copies.end(), [&](const QuantizedCopy& copy) {
    return unseen(layer, operand_slot(call.slot, copy.axis));
  });
  const bool wants_source =
      (is_dy && unseen(layer, "dgrad.dx")) || ((is_dy || call.slot == "x") && unseen(layer, "wgrad.dw"));
  // What is rounded again was made from the forward's copy, and that from what counts.
  if (again)
    if (const auto forward = sources_.find(call.x.raw()); forward != sources_.end())
      for (const QuantizedCopy& copy : call.copies) sources_[copy.values.raw()] = forward->second;
  if (!wanted && !wants_source) return;
  const Matrix x = downloaded(call.x);
  if (wanted) measure(layer, call.slot, x, call.copies);
  if (wants_source)
    for (const QuantizedCopy& copy : call.copies) sources_[copy.values.raw()] = source_of(x, call.slot);
}

/// Operands that no call has rounded: they are the tensors themselves.
void MeasuringBackend::measure_unrounded(const call::Gemm& call) {
  if (!options_.unrounded || layer_.empty() || call.slot.empty()) return;
  const auto look_at = [&](std::string_view tensor, const Operand& operand, Axis axis) {
    if (copies_.contains(operand.values.raw()) || !unseen(layer_, operand_slot(tensor, axis))) return;
    const auto weight = weights_.find(layer_);  // a copy of it may be older than start()
    if (tensor == "w" && (weight == weights_.end() || weight->second.raw() != operand.values.raw())) return;
    QuantizedCopy unrounded;
    unrounded.axis = axis;
    unrounded.values = operand.values;
    measure(layer_, tensor, downloaded(operand.values), std::span(&unrounded, 1));
  };
  const bool fprop = call.slot == "fprop", wgrad = call.slot == "wgrad";
  look_at(fprop ? "x" : "dy", call.a, wgrad ? Axis::column : Axis::row);
  look_at(wgrad ? "x" : "w", call.b, fprop ? Axis::row : Axis::column);
}

void MeasuringBackend::measure_weight(const std::string& layer, const Tensor& x,
                                      std::span<const QuantizedCopy> copies, const Tensor& multiplier) {
  const bool wanted = std::any_of(copies.begin(), copies.end(), [&](const QuantizedCopy& copy) {
    return unseen(layer, operand_slot("w", copy.axis));
  });
  if (!wanted) return;
  Matrix values = downloaded(x);
  if (multiplier) {
    float by = 1;
    inner_.download(&by, multiplier);
    for (float& v : values.x) v *= by;
  }
  measure(layer, "w", values, copies);
}

}  // namespace mxtape
