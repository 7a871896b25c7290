#include "kernels/observers/measure.h"

#include <cmath>

#include "kernels/mx_transfer.h"
#include "kernels/observers/seen_tensors.h"

namespace mxtape {
namespace {

constexpr std::int64_t gradient_rows = 16, gradient_cols = 32;  // what of a gradient is computed again

}  // namespace

void Measure::start(std::map<std::uint32_t, Weight> weights) {
  stop();
  weights_ = std::move(weights);
  on_ = true;
}

Measurements Measure::stop() {
  on_ = false;
  weights_.clear(), seen_.clear(), sources_.clear();
  exact_ = {}, last_.reset();
  return std::exchange(found_, {});
}

void Measure::after(const Seen& seen) {
  if (!on_) return;
  device_ = &seen.device;
  layer_ = seen.layer;
  if (const auto* const call = seen.call.as<call::Gemm>()) measure_unrounded(*call), measure_gradient(*call);
  if (const auto* const call = seen.call.as<call::Quantize>()) measure_rounded(*call);
  // The product of a copy that was rotated before it was rounded again is no gradient until it is turned
  // back.
  if (const auto* const back = seen.call.as<call::QuantizeBackward>()) {
    if (last_ && back->rotated) {
      found_.gradients.pop_back();
      compare(*last_, back->dx);
    }
    last_.reset();
  }
}

Measure::Matrix Measure::downloaded(const Tensor& x) const {
  return {mxtape::downloaded(*device_, x), x.rows(), x.cols()};
}

bool Measure::unseen(const std::string& layer, const std::string& slot) const {
  const bool wanted = !slot.empty() && (!options_.wants || options_.wants(layer, slot));
  return wanted && !seen_.contains({layer, slot});
}

void Measure::measure(const std::string& layer, const Matrix& x, std::span<const Rounded> made) {
  float amax = 0;
  for (const float v : x.x) amax = std::max(amax, std::fabs(v));
  const auto measure_slot = [&](const Rounded& r, Slot at) {
    const Rotation& rotation = r.by.rotation;
    const bool either = rotation.size == 0 && serves_both_axes(r.by.quantizer);
    const Axis axis = either ? axis_of(at) : r.by.axis;
    const std::string slot = seen_name_of(at);
    if (!unseen(layer, slot)) return;
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
    std::vector<float> window = x.corner(rows, cols).x;
    if (rotation.size) rotate_reference(window.data(), window.data(), rows, cols, axis, rotation, r.by.signs);
    if (options_.look) options_.look(layer, slot, x.x, x.rows, x.cols);
    const auto add = [&](const Quantizer& q, bool in_use) {
      const auto of_tensor = rotation.size ? std::nullopt : std::optional(amax);
      found_.operands.push_back(
          {layer, slot, q, in_use, error_statistics(window.data(), rows, cols, axis, q, {}, of_tensor)});
    };
    add(r.by.quantizer, true);
    for (const Quantizer& q : options_.others)
      if (!(q == r.by.quantizer)) add(q, false);
  };
  for (const Rounded& r : made)
    for (const Slot slot : {r.site.slot, r.site.also}) measure_slot(r, slot);
}

void Measure::measure_rounded(const call::Quantize& call) {
  if (call.to.empty() || call.to.front().site.slot == Slot::none) return;
  const Rounded& first = call.to.front();
  if (first.layout == Layout::stored) return;  // on its way to others
  if (const Weight* const weight = weight_of(first); weight && layer_.empty()) layer_ = weight->layer;
  if (layer_.empty()) return;
  const bool wanted = std::any_of(call.to.begin(), call.to.end(), [&](const Rounded& r) {
    return unseen(layer_, seen_name_of(r.site.slot)) || unseen(layer_, seen_name_of(r.site.also));
  });
  const std::string_view tensor = tensor_of(first.site.slot);
  Source* source = nullptr;
  if (tensor == "x" || tensor == "dy") {
    source = &sources_.try_emplace({layer_, tensor}, Source{.dtype = call.x.dtype()}).first->second;
    // What is rounded again was made from the forward's copy, and that from what counts.
    if (first.by.again || !(unseen(layer_, "wgrad.dw") || (tensor == "dy" && unseen(layer_, "dgrad.dx"))))
      source = nullptr;
  }
  if (!wanted && !source) return;
  const Matrix x = downloaded(call.x);
  if (wanted) measure(layer_, x, call.to);
  if (source) keep_corners(*source, x, tensor);
}

/// Operands that no call has rounded: they are the tensors themselves.
void Measure::measure_unrounded(const call::Gemm& call) {
  if (!options_.unrounded || layer_.empty()) return;
  for (const Rounded* const side : {&call.a, &call.b}) {
    const Slot slot = side->site.slot;
    if (!is_linear(slot) || is_rounded(*side) || !unseen(layer_, seen_name_of(slot))) continue;
    const Rounded itself = unrounded(side->elements, side->axis, side->site);
    measure(layer_, downloaded(side->elements), {&itself, 1});
  }
}

void Measure::measure_copy(Backend& device, const Rounded& copy, const Tensor& x) {
  device_ = &device;
  const Weight* const weight = weight_of(copy);
  if (weight && (unseen(weight->layer, "fprop.w") || unseen(weight->layer, "dgrad.w")))
    measure(weight->layer, downloaded(x), {&copy, 1});
}

// Gradients beside those of operands that nothing rounded.

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
  const bool is_dy = tensor == "dy";
  if (is_dy) source.rows = x.corner(gradient_rows, x.cols);
  source.columns = x.corner(x.rows, is_dy ? gradient_rows : gradient_cols);
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
      const double exact = exact_.at(r, c), v = got.at(r, c);
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
