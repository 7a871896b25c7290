#pragma once
#include <vector>

#include "autograd/parameter.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/backend.h"

namespace mxtape {

/// pack() of w's values, rotated if its rounding is; with `ema` its average decides, if it has one.
inline MxTensor pack_by_average(Backend& backend, const Parameter& w, const std::vector<float>& values,
                                const Quantization& by) {
  const std::int64_t rows = w.value.rows(), cols = w.value.cols();
  if (!by.quantizer.ema || !w.average)
    return pack(values.data(), rows, cols, by.axis, by.quantizer, by.draws);
  std::vector<std::uint32_t> bits(values.size());
  backend.download(bits.data(), w.average);
  return pack_with_draws(values.data(), rows, cols, by.axis, by.quantizer, bits);
}

}  // namespace mxtape
