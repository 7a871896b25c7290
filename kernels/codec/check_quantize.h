#pragma once
#include "core/error.h"
#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/backend.h"

namespace mxtape {

/// What call::Quantize wants of its arguments. Throws Error that names the quantizer.
inline void check_quantize(std::span<const QuantizedCopy> copies, const Tensor& x,
                           const Tensor& column_sums) {
  require(!column_sums || (column_sums.count() == x.cols() && column_sums.dtype() == DType::f32),
          "quantize: column_sums is {} {}; want f32 [{}]", name_of(column_sums.dtype()),
          column_sums.shape().text(), x.cols());
  for (const QuantizedCopy& copy : copies) {
    const Quantizer& q = copy.quantizer;
    const std::string contradiction = q.contradiction();
    require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", to_text(q), contradiction);
    if (copy.form == Form::codes) {
      const CodeLayout layout = code_layout(q, x.rows(), x.cols(), copy.axis);
      require(has_integer_codes(q), "quantize: '{}' has no integer codes", to_text(q));
      require(copy.layout == layout && copy.values.dtype() == DType::u8 &&
                  copy.values.shape() == layout.codes() && copy.scales.shape() == layout.scales(),
              "quantize: x is {}, its codes {} {}, their scales {}; want u8 {} and {}", x.shape().text(),
              name_of(copy.values.dtype()), copy.values.shape().text(), copy.scales.shape().text(),
              layout.codes().text(), layout.scales().text());
    } else {
      require(copy.values.count() == x.count() && copy.values.dtype() == q.operand_dtype(),
              "quantize: x is {}, the copy {} {}; want as many {}", x.shape().text(),
              name_of(copy.values.dtype()), copy.values.shape().text(), name_of(q.operand_dtype()));
    }
    require(q.has_multiplier() == bool(copy.multiplier), "quantize: '{}' {} a multiplier", to_text(q),
            q.has_multiplier() ? "needs" : "has no");
  }
}

/// For devices that multiply no integer codes.
inline void refuse_codes(std::string_view device, std::span<const QuantizedCopy> copies) {
  for (const QuantizedCopy& copy : copies)
    require(copy.form == Form::values,
            "{}: quantize: '{}' is wanted as integer codes, which this device has not", device,
            to_text(copy.quantizer));
}

/// What call::QuantizeBackward wants.
inline void check_quantize_backward(const call::QuantizeBackward& call) {
  const std::string contradiction = call.copy.quantizer.contradiction();
  require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", to_text(call.copy.quantizer),
          contradiction);
  const bool wants_x = call.ste.kind != SteKind::identity;
  require(call.dx.count() == call.dy.count() && (!wants_x || call.x.count() == call.dy.count()),
          "quantize_backward: dx is {}, dy {}, x {}; want the same size", call.dx.shape().text(),
          call.dy.shape().text(), call.x ? call.x.shape().text() : "not there");
}

/// What call::Pack and Unpack want of a packed tensor and of the plain one at its other side.
inline void check_packed(const char* method, const PackedTensor& packed, const Tensor& plain) {
  const Quantizer& q = packed.quantizer;
  const std::string contradiction = q.contradiction();
  require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", to_text(q), contradiction);
  require_packable(q);
  require(plain.rows() == packed.rows && plain.cols() == packed.cols, "{}: {} for a packed [{}, {}]", method,
          plain.shape().text(), packed.rows, packed.cols);
  const PackedLayout want = packed_layout(q, packed.rows, packed.cols, packed.axis);
  const auto check = [&](const char* name, const Tensor& part, std::int64_t bytes) {
    const std::int64_t found = part ? part.count() : 0;
    require(found == bytes && (!part || part.dtype() == DType::u8), "{}: {} {} of {}; want {} u8 for '{}'",
            method, found, name_of(part.dtype()), name, bytes, to_text(q));
  };
  check("codes", packed.codes, want.codes);
  check("scales", packed.scales, want.scales);
  check("offsets", packed.offsets, want.offsets);
}

/// An operand of integer codes, or a plain tensor.
inline void check_unpack(const call::Unpack& call) {
  if (call.y.dtype() != DType::u8) return check_packed("unpack", call.x, call.y);
  const PackedTensor& x = call.x;
  check_packed("unpack", x, Tensor({}, {x.rows, x.cols}, DType::f32));
  require(has_integer_codes(x.quantizer), "unpack: '{}' has no integer codes", to_text(x.quantizer));
  const CodeLayout want = code_layout(x.quantizer, x.rows, x.cols, x.axis);
  require(call.layout == want && call.y.shape() == want.codes() && call.scales.shape() == want.scales(),
          "unpack: codes {} and scales {} for a packed [{}, {}]; want {} and {}", call.y.shape().text(),
          call.scales.shape().text(), x.rows, x.cols, want.codes().text(), want.scales().text());
}

inline void check_pack(const PackedTensor& y, const Tensor& x) {
  check_packed("pack", y, x);
  const Quantizer& q = y.quantizer;
  require(q.has_multiplier() == bool(y.multiplier), "pack: '{}' {} a multiplier", to_text(q),
          q.has_multiplier() ? "needs" : "has no");
  require(y.first_uncoded && y.first_uncoded.dtype() == DType::i32,
          "pack: no first_uncoded; want i32 [1], as empty_packed() makes it");
}

}  // namespace mxtape
