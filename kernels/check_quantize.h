#pragma once
#include <algorithm>

#include "core/error.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/backend.h"
#include "kernels/calls_rows.h"
#include "kernels/narrow.h"

namespace mxtape {

inline void check_quantizer(const Quantizer& q) {
  const std::string contradiction = q.contradiction();
  require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", q, contradiction);
}

/// That a rounded matrix has the parts that its quantizer, shape and layout want. Throws Error that names
/// them.
inline void check_parts(std::string_view call, const Rounded& r) {
  const Quantizer& q = r.by.quantizer;
  check_quantizer(q);
  const auto check = [&](std::string_view name, const Tensor& part, DType dtype, std::int64_t count) {
    const std::int64_t found = part ? part.count() : 0;
    require(found == count && (!part || part.dtype() == dtype), "{}: {} {} of {}; want {} {} for '{}' of {}",
            call, found, name_of(part.dtype()), name, count, name_of(dtype), q, r.shape);
  };
  if (r.layout == Layout::values) {
    check("values", r.elements, r.elements.dtype(), r.shape.count());
  } else if (r.layout == Layout::codes) {
    require(has_integer_codes(q), "{}: '{}' has no integer codes", call, q);
    const CodeLayout at = code_layout(r);
    check("codes", r.elements, DType::u8, at.codes().count());
    check("scales", r.scales, DType::f32, at.scales().count());
  } else {
    if (r.layout == Layout::stored) require_packable(q);
    const PackedLayout want = bytes_when_packed(r);
    check("codes", r.elements, DType::u8, want.codes);
    check("scales", r.scales, DType::u8, want.scales);
    check("offsets", r.offsets, DType::u8, want.offsets);
  }
}

/// What call::Quantize wants of its arguments, and call::AdamW of its copies.
inline void check_quantize(std::span<const Rounded> to, const Tensor& x, const Tensor& column_sums = {},
                           const Tensor& first_uncoded = {}) {
  const auto is_stored = [](const Rounded& r) { return r.layout == Layout::stored; };
  require(!first_uncoded || std::count_if(to.begin(), to.end(), is_stored) == 1,
          "quantize: first_uncoded is asked for; want one stored result, as it is the index in one");
  require(!column_sums || (column_sums.count() == x.cols() && column_sums.dtype() == DType::f32),
          "quantize: column_sums is {} {}; want f32 [{}]", name_of(column_sums.dtype()), column_sums.shape(),
          x.cols());
  require(to.size() < 2 || (to.size() == 2 && to[0].by.draws == to[1].by.draws),
          "quantize: {} roundings of one x; want at most two, with the same draws", to.size());
  for (const Rounded& r : to) {
    check_parts("quantize", r);
    const Quantizer& q = r.by.quantizer;
    require(r.rows() == x.rows() && r.cols() == x.cols(),
            "quantize: x is {}, its rounding {}; want one shape", x.shape(), r.shape);
    require(r.layout != Layout::values || r.elements.dtype() == q.operand_dtype(),
            "quantize: values of '{}' are {}; want {}", q, name_of(r.elements.dtype()),
            name_of(q.operand_dtype()));
    require(!is_narrow(r.layout), "quantize: nothing is rounded into a narrow layout; want recode");
    require(q.has_multiplier() == bool(r.multiplier), "quantize: '{}' {} a multiplier", q,
            q.has_multiplier() ? "needs" : "has no");
  }
}

/// What call::Recode wants.
inline void check_recode(const call::Recode& call) {
  const Rounded &to = call.to, &from = call.from;
  check_parts("recode", to), check_parts("recode", from);
  require(to.rows() == from.rows() && to.cols() == from.cols(), "recode: {} from {}; want one shape",
          to.shape, from.shape);
  const bool same = to.by.quantizer == from.by.quantizer && to.by.axis == from.by.axis;
  const bool narrows =
      same && to.layout != from.layout && narrowed(to.layout) == narrowed(from.layout) &&
      (to.layout != Layout::values || to.elements.dtype() == to.by.quantizer.operand_dtype()) &&
      (from.layout != Layout::values || from.elements.dtype() == from.by.quantizer.operand_dtype());
  const bool to_values =
      to.layout == Layout::values && to.elements.dtype() != DType::u8 && !is_narrow(from.layout);
  const bool to_codes = same && to.layout == Layout::codes && from.layout == Layout::stored;
  require(
      narrows || to_values || to_codes,
      "recode: from one layout to another that it does not lead to; want values, codes from what is stored, "
      "or the narrow layout of both");
  const bool shares = to.multiplier && from.multiplier && to.multiplier.raw() == from.multiplier.raw();
  const bool multiplies = to_values && !to.multiplier;
  require(
      shares || multiplies || (!to.multiplier && !from.multiplier),
      "recode: a multiplier that is not the one of what is recoded; want the same, or values without one");
  require(
      !multiplies || !from.multiplier || from.layout != Layout::stored || to.elements.dtype() == DType::f32,
      "recode: stored numbers and their multiplier into bf16, which would round twice; want f32");
}

/// For devices that multiply no integer codes.
inline void refuse_codes(std::string_view device, std::span<const Rounded> to) {
  for (const Rounded& r : to)
    require(r.layout != Layout::codes, "{}: '{}' is wanted as integer codes, which this device has not",
            device, r.by.quantizer);
}

/// What call::QuantizeBackward wants.
inline void check_quantize_backward(const call::QuantizeBackward& call) {
  check_quantizer(call.by.quantizer);
  const bool wants_x = call.ste.kind != SteKind::identity;
  const auto as_dy = [&](const Tensor& t) {
    return (t || t.count() == 0) && t.rows() == call.dy.rows() && t.cols() == call.dy.cols();
  };
  require(as_dy(call.dx) && (!wants_x || as_dy(call.x)),
          "quantize_backward: dx is {}, dy {}, x {}; want the same size", call.dx.shape(), call.dy.shape(),
          call.x ? call.x.shape().text() : "not there");
}

}  // namespace mxtape
