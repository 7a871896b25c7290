// Gradients beside those of operands that nothing rounded, and what an update does to rounded weights.
#include <algorithm>
#include <cmath>

#include "kernels/around/first_rows.h"
#include "kernels/around/measuring_backend.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

constexpr std::int64_t gradient_rows = 16, gradient_cols = 32;  // what of a gradient is computed again

}  // namespace

/// dW[N, K] = dY^T X wants columns of both, dX[M, K] = dY W rows of dY.
MeasuringBackend::Source MeasuringBackend::source_of(const Matrix& x, std::string_view tensor) const {
  const auto corner = [&](std::int64_t rows, std::int64_t cols) {
    Matrix part{{}, std::min(rows, x.rows), std::min(cols, x.cols)};
    for (std::int64_t r = 0; r < part.rows; ++r)
      part.x.insert(part.x.end(), x.x.begin() + r * x.cols, x.x.begin() + r * x.cols + part.cols);
    return part;
  };
  if (tensor == "dy") return {corner(gradient_rows, x.cols), corner(x.rows, gradient_rows)};
  return {{}, corner(x.rows, gradient_cols)};
}

/// Null if the operand was rounded from what was not seen. `unrounded` keeps what had to be fetched.
const MeasuringBackend::Matrix* MeasuringBackend::side(const Rounded& operand, Matrix Source::*part,
                                                       Source& unrounded) {
  const auto source = sources_.find(operand.elements.raw());
  if (source != sources_.end()) return &(source->second.*part);
  if (copies_.contains(operand.elements.raw())) return nullptr;
  unrounded = source_of(downloaded(operand.elements), tensor_of(operand.site.slot));
  return &(unrounded.*part);
}

void MeasuringBackend::leave_out(const std::string& slot, std::string reason) {
  found_.left_out.push_back({layer_, slot, std::move(reason)});
}

void MeasuringBackend::measure_gradient(const call::Gemm& call) {
  measured_ = nullptr;
  const bool of_weight = call.a.site.slot == Slot::wgrad_dy, of_x = call.a.site.slot == Slot::dgrad_dy;
  const std::string slot(product_of(call.a.site.slot));
  if (layer_.empty() || !(of_weight || of_x) || !unseen(layer_, slot)) return;
  seen_.emplace(layer_, slot);
  const auto w = weights_.find(layer_);
  const bool a_rounded = copies_.contains(call.a.elements.raw()),
             b_rounded = of_weight ? copies_.contains(call.b.elements.raw())
                                   : w == weights_.end() || w->second.raw() != call.b.elements.raw();
  if (!a_rounded && !b_rounded) return leave_out(slot, "nothing rounds its operands");
  if (call.write == Write::accumulate) return leave_out(slot, "its GEMM adds to another gradient");
  Source a_fetched, b_fetched;
  const Matrix* const a = side(call.a, of_weight ? &Source::columns : &Source::rows, a_fetched);
  const Matrix* b = nullptr;
  if (of_weight)
    b = side(call.b, &Source::columns, b_fetched);
  else if (w != weights_.end())
    b_fetched = source_of(downloaded(w->second), "w"), b = &b_fetched.columns;
  if (!a || !b) return leave_out(slot, "what its operands were rounded from was not seen");

  exact_ = {{}, of_weight ? a->cols : a->rows, b->cols};
  double squares = 0;
  for (std::int64_t r = 0; r < exact_.rows; ++r)
    for (std::int64_t c = 0; c < exact_.cols; ++c) {
      double sum = 0;
      for (std::int64_t k = 0; k < b->rows; ++k)
        sum += double(of_weight ? a->at(k, r) : a->at(r, k)) * double(b->at(k, c));
      exact_.x.push_back(sum);
      squares += sum * sum;
    }
  if (of_weight) sources_.erase(call.b.elements.raw());  // it served
  if (!(squares > 0)) return leave_out(slot, "it is zero, or not finite");
  compare(slot, call.c);
  measured_ = call.c.raw();
}

void MeasuringBackend::compare(const std::string& slot, const Tensor& result) {
  const Matrix got = downloaded(first_rows(result, exact_.rows));
  double exact_squares = 0, got_squares = 0, product = 0, errors = 0;
  for (std::int64_t r = 0; r < exact_.rows; ++r)
    for (std::int64_t c = 0; c < exact_.cols; ++c) {
      const double exact = exact_.x[std::size_t(r * exact_.cols + c)], v = got.at(r, c);
      exact_squares += exact * exact;
      got_squares += v * v;
      product += exact * v;
      errors += (v - exact) * (v - exact);
    }
  found_.gradients.push_back({layer_, slot,
                              got_squares > 0 ? product / std::sqrt(exact_squares * got_squares) : 0,
                              product / exact_squares - 1, std::sqrt(errors / exact_squares)});
}

void MeasuringBackend::measure_update(const call::AdamW& call) {
  const auto layer = layers_.find(call.parameter.raw());
  const auto copy = std::find_if(call.copies.begin(), call.copies.end(),
                                 [](const Rounded& c) { return c.by.axis == Axis::row; });
  if (!options_.oscillation || layer == layers_.end() || copy == call.copies.end())
    return inner_.dispatch(&call);
  const Tensor part = first_rows(
      call.parameter,
      std::max<std::int64_t>(options_.sample / std::max<std::int64_t>(call.parameter.cols(), 1), 1));
  const auto rounded = [&](const Matrix& w) {
    std::vector<float> values(w.x.size());
    // With the same draws before and after, and in units of the multiplier, which changes little in a step.
    const float multiplier =
        quantize_reference(values.data(), w.x.data(), w.rows, w.cols, Axis::row, copy->by.quantizer, {});
    for (float& v : values) v *= multiplier;
    return values;
  };
  const Matrix before = downloaded(part);
  inner_.dispatch(&call);
  const Matrix after = downloaded(part);
  const auto was = rounded(before), is = rounded(after);
  double moved = 0, rounded_moved = 0;
  for (std::size_t i = 0; i < was.size(); ++i) {
    moved += std::fabs(double(after.x[i]) - double(before.x[i]));
    rounded_moved += std::fabs(double(is[i]) - double(was[i]));
  }
  if (moved > 0) found_.weights.push_back({layer->second, rounded_moved / moved});
}

}  // namespace mxtape
