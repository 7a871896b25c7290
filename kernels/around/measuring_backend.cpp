#include "kernels/around/measuring_backend.h"

#include <algorithm>
#include <cmath>

#include "kernels/around/operand_slots.h"

namespace mxtape {
namespace {

constexpr std::int64_t gradient_rows = 16, gradient_cols = 32;  // what of a gradient is computed again

}  // namespace

void MeasuringBackend::name_weight(const Tensor& weight, std::string layer) {
  layers_[weight.raw()] = layer;
  weights_[std::move(layer)] = weight;
}

void MeasuringBackend::start() {
  found_ = {};
  copies_.clear();
  columns_.clear();
  rows_.clear();
  on_ = true;
}

Measurements MeasuringBackend::stop() {
  on_ = false;
  columns_.clear();
  rows_.clear();
  return std::move(found_);
}

void MeasuringBackend::enter(std::string_view layer, bool backward) {
  layer_ = layer;
  inner_.enter(layer, backward);
}

void MeasuringBackend::dispatch(AnyCall any) {
  if (!on_) return inner_.dispatch(any);
  if (const auto* const update = std::get_if<const call::AdamW*>(&any)) return measure_update(**update);
  inner_.dispatch(any);
  if (const auto* const call = std::get_if<const call::Quantize*>(&any)) measure_operands(**call);
  if (const auto* const call = std::get_if<const call::Gemm*>(&any)) {
    measure_unrounded(**call);
    const std::size_t before = found_.gradients.size();
    measure_gradient(**call);
    measured_ = found_.gradients.size() > before ? (*call)->c.raw() : nullptr;
  }
  // The product of a copy that was rotated before it was rounded again is no gradient until it is turned
  // back.
  if (const auto* const back = std::get_if<const call::QuantizeBackward*>(&any); back && measured_) {
    if ((*back)->rotated && (*back)->dx.raw() == measured_) found_.gradients.pop_back();
    measured_ = nullptr;
  }
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

/// Rows [0, rows) and columns [0, cols) of x, as far as there are.
static std::vector<float> corner(const std::vector<float>& x, std::int64_t stride, std::int64_t rows,
                                 std::int64_t cols) {
  std::vector<float> part;
  part.reserve(std::size_t(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    part.insert(part.end(), x.begin() + r * stride, x.begin() + r * stride + cols);
  return part;
}

void MeasuringBackend::measure(const std::string& layer, std::string_view tensor, const Matrix& x,
                               std::span<const QuantizedCopy> copies) {
  float amax = 0;
  for (const float v : x.x) amax = std::max(amax, std::fabs(v));
  for (const QuantizedCopy& copy : copies) {
    // From the start of the summed axis, where blocks and chunks of a rotation begin; lines as many as it
    // takes.
    const bool by_rows = copy.axis == Axis::row;
    const std::int64_t extent = by_rows ? x.cols : x.rows, lines = by_rows ? x.rows : x.cols;
    constexpr std::int64_t longest = 1024;  // a multiple of all chunks and blocks of powers of two
    const std::int64_t along = std::min(extent, longest),
                       across = std::clamp<std::int64_t>(options_.sample / std::max<std::int64_t>(along, 1),
                                                         1, lines);
    const std::int64_t rows = by_rows ? across : along, cols = by_rows ? along : across;
    auto window = corner(x.x, x.cols, rows, cols);
    if (copy.rotation.size)
      rotate_reference(window.data(), window.data(), rows, cols, copy.axis, copy.rotation, copy.signs);
    const std::string slot = operand_slot(tensor, copy.axis);
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

void MeasuringBackend::measure_operands(const call::Quantize& call) {
  if (layer_.empty() || call.slot.empty() || call.copies.empty()) return;
  const Matrix x = downloaded(call.x);
  measure(layer_, call.slot, x, call.copies);
  const std::int64_t width = call.slot == "dy" ? gradient_rows : gradient_cols;
  for (const QuantizedCopy& copy : call.copies) {
    copies_.insert(copy.values.raw());
    if (call.slot.ends_with(" again")) continue;  // x holds rounded values: nothing to compare gradients with
    const std::int64_t cols = std::min(width, x.cols), rows = std::min(width, x.rows);
    // Both: a copy that serves both axes is made once.
    columns_[copy.values.raw()] = {corner(x.x, x.cols, x.rows, cols), x.rows, cols};
    if (call.slot == "dy") rows_[copy.values.raw()] = {corner(x.x, x.cols, rows, x.cols), rows, x.cols};
  }
}

/// Operands that no call has rounded: they are the tensors themselves.
void MeasuringBackend::measure_unrounded(const call::Gemm& call) {
  if (layer_.empty() || call.slot.empty()) return;
  const auto look_at = [&](std::string_view tensor, const Operand& operand, Axis axis) {
    if (copies_.contains(operand.values.raw())) return;
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

void MeasuringBackend::measure_gradient(const call::Gemm& call) {
  const bool of_weight = call.slot == "wgrad", of_input = call.slot == "dgrad";
  // What a micro-batch added to is the sum of all before it.
  if (!(of_weight || of_input) || call.write == Write::accumulate) return;
  const Matrix *a = nullptr, *b = nullptr;
  Matrix weight;
  if (of_weight) {
    const auto dy = columns_.find(call.a.values.raw()), x = columns_.find(call.b.values.raw());
    if (dy == columns_.end() || x == columns_.end()) return;
    a = &dy->second, b = &x->second;
  } else {
    const auto dy = rows_.find(call.a.values.raw());
    const auto w = weights_.find(layer_);
    if (dy == rows_.end() || w == weights_.end()) return;
    weight = downloaded(w->second);
    a = &dy->second, b = &weight;
  }
  const Matrix got = downloaded(call.c);
  const std::int64_t rows = std::min(of_weight ? a->cols : a->rows, got.rows),
                     cols = std::min({gradient_cols, b->cols, got.cols}), summed = b->rows;
  double exact_squares = 0, got_squares = 0, product = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      double exact = 0;
      for (std::int64_t k = 0; k < summed; ++k)
        exact += double(of_weight ? a->at(k, r) : a->at(r, k)) * double(b->at(k, c));
      const double v = got.at(r, c);
      exact_squares += exact * exact;
      got_squares += v * v;
      product += exact * v;
    }
  if (!(exact_squares > 0)) return;
  found_.gradients.push_back({layer_, of_weight ? "wgrad.dw" : "dgrad.dx",
                              got_squares > 0 ? product / std::sqrt(exact_squares * got_squares) : 0,
                              product / exact_squares - 1});
}

void MeasuringBackend::measure_update(const call::AdamW& call) {
  const auto layer = layers_.find(call.parameter.raw());
  const auto copy = std::find_if(call.copies.begin(), call.copies.end(),
                                 [](const QuantizedCopy& c) { return c.axis == Axis::row; });
  if (layer == layers_.end() || copy == call.copies.end()) return inner_.dispatch(&call);
  const auto rounded = [&](const Matrix& w, std::int64_t rows) {
    std::vector<float> values(std::size_t(rows * w.cols));
    // With the same draws before and after, and in units of the multiplier, which changes little in a step.
    const float multiplier =
        quantize_reference(values.data(), w.x.data(), rows, w.cols, Axis::row, copy->quantizer, {});
    for (float& v : values) v *= multiplier;
    return values;
  };
  const Matrix before = downloaded(call.parameter);
  inner_.dispatch(&call);
  const Matrix after = downloaded(call.parameter);
  measure(layer->second, "w", after, call.copies);
  const std::int64_t rows =
      std::clamp<std::int64_t>(options_.sample / std::max<std::int64_t>(before.cols, 1), 1, before.rows);
  const auto was = rounded(before, rows), is = rounded(after, rows);
  double moved = 0, rounded_moved = 0;
  for (std::size_t i = 0; i < was.size(); ++i) {
    moved += std::fabs(double(after.x[i]) - double(before.x[i]));
    rounded_moved += std::fabs(double(is[i]) - double(was[i]));
  }
  if (moved > 0) found_.weights.push_back({layer->second, rounded_moved / moved});
}

}  // namespace mxtape
