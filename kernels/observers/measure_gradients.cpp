// Gradients beside those of operands that nothing rounded.
#include <algorithm>
#include <cmath>

#include "kernels/observers/measure.h"

namespace mxtape {
namespace {

constexpr std::int64_t gradient_rows = 16, gradient_cols = 32;  // what of a gradient is computed again

}  // namespace

const Measure::Weight* Measure::weight_of(const Rounded& r) const {
  const auto found = weights_.find(r.site.layer);
  const bool is_weight = is_linear(r.site.slot) && tensor_of(r.site.slot) == "w";
  return is_weight && found != weights_.end() ? &found->second : nullptr;
}

/// Of operands of a linear layer. What no call has rounded is the tensor itself.
bool Measure::is_rounded(const Rounded& operand) const {
  const std::string_view tensor = tensor_of(operand.site.slot);
  if (tensor == "w") {
    const Weight* const weight = weight_of(operand);
    return !weight || weight->value.raw() != operand.elements.raw();
  }
  const auto source = sources_.find({layer_, tensor});
  return source != sources_.end() && (operand.by.again || !is_itself(operand, source->second.dtype));
}

/// dW[N, K] = dY^T X wants columns of both, dX[M, K] = dY W rows of dY.
void Measure::keep_corners(Source& source, const Matrix& x, std::string_view tensor) {
  const auto corner = [&](std::int64_t rows, std::int64_t cols) {
    Matrix part{{}, std::min(rows, x.rows), std::min(cols, x.cols)};
    for (std::int64_t r = 0; r < part.rows; ++r)
      part.x.insert(part.x.end(), x.x.begin() + r * x.cols, x.x.begin() + r * x.cols + part.cols);
    return part;
  };
  const bool is_dy = tensor == "dy";
  if (is_dy) source.rows = corner(gradient_rows, x.cols);
  source.columns = corner(x.rows, is_dy ? gradient_rows : gradient_cols);
}

/// Null if the operand was rounded from what was not seen. `unrounded` keeps what had to be fetched.
const Measure::Matrix* Measure::side(const Rounded& operand, Matrix Source::*part, Source& unrounded) const {
  const std::string_view tensor = tensor_of(operand.site.slot);
  const auto source = sources_.find({layer_, tensor});
  if (source != sources_.end() && !(source->second.*part).x.empty()) return &(source->second.*part);
  if (is_rounded(operand)) return nullptr;
  keep_corners(unrounded, downloaded(operand.elements), tensor);
  return &(unrounded.*part);
}

void Measure::measure_gradient(const call::Gemm& call) {
  last_.reset();
  const bool of_weight = call.a.site.slot == Slot::wgrad_dy, of_x = call.a.site.slot == Slot::dgrad_dy;
  const std::string slot(product_of(call.a.site.slot));
  if (layer_.empty() || !(of_weight || of_x) || !unseen(layer_, slot)) return;
  seen_.emplace(layer_, slot);
  const auto leave_out = [&](const char* reason) { found_.left_out.push_back({layer_, slot, reason}); };
  if (!is_rounded(call.a) && !is_rounded(call.b)) return leave_out("nothing rounds its operands");
  if (call.write == Write::accumulate) return leave_out("its GEMM adds to another gradient");
  Source a_fetched, b_fetched;
  const Matrix* const a = side(call.a, of_weight ? &Source::columns : &Source::rows, a_fetched);
  const Matrix* b = nullptr;
  if (of_weight)
    b = side(call.b, &Source::columns, b_fetched);
  else if (const Weight* const weight = weight_of(call.b))
    keep_corners(b_fetched, downloaded(weight->value), "w"), b = &b_fetched.columns;
  if (!a || !b) return leave_out("what its operands were rounded from was not seen");

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
  if (!(squares > 0)) return leave_out("it is zero, or not finite");
  compare(slot, call.c);
  last_ = slot;
}

void Measure::compare(const std::string& slot, const Tensor& result) {
  const Matrix got = downloaded(result.part(0, {exact_.rows, result.cols()}));
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

}  // namespace mxtape
