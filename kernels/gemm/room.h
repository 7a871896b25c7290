#pragma once
#include "kernels/backend.h"

namespace mxtape {

/// Takes memory for a copy of an x of that shape, by its quantizer, axis and form.
inline void make_room(Backend& backend, QuantizedCopy& copy, const Shape& x) {
  const bool codes = copy.form == Form::codes;
  if (codes) {
    copy.layout = code_layout(copy.quantizer, x.rows(), x.cols(), copy.axis);
    copy.scales = backend.empty(copy.layout.scales());
  }
  copy.values = codes ? backend.empty(copy.layout.codes(), DType::u8)
                      : backend.empty(x, copy.quantizer.operand_dtype());
  if (copy.quantizer.has_multiplier()) copy.multiplier = backend.empty({1});
}

/// Bytes of a copy's memory.
inline std::int64_t bytes_of(const QuantizedCopy& copy) {
  return copy.values.bytes() + copy.scales.bytes() + copy.multiplier.bytes();
}

}  // namespace mxtape
