#pragma once
#include <span>

#include "kernels/backend.h"

namespace mxtape::test {

/// Memory for a rounding of a matrix of that shape.
inline Rounded room_for(Backend& backend, const Quantizer& q, Axis axis, const Shape& shape,
                        Layout layout = Layout::values) {
  return with_room(backend, wanted(q, axis, shape, layout));
}

/// call::Quantize, all with these draws.
inline void quantize(Backend& backend, std::span<Rounded> to, const Tensor& x, const DrawKey& draws = {},
                     const Tensor& column_sums = {}, Write sums = Write::overwrite) {
  for (Rounded& r : to) r.by.draws = draws;
  backend.run(call::Quantize{to, x, column_sums, sums});
}

inline Rounded quantized(Backend& backend, const Quantizer& q, Axis axis, const Tensor& x,
                         const DrawKey& draws = {}, Layout layout = Layout::values) {
  Rounded r = room_for(backend, q, axis, x.shape(), layout);
  quantize(backend, {&r, 1}, x, draws);
  return r;
}

}  // namespace mxtape::test
