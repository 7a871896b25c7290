#pragma once
#include <span>
#include <vector>

#include "autograd/parameter.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/backend.h"

namespace mxtape {

/// Gives matrices a moving average (Parameter::average), which rounding with `ema` asks: each begins at the
/// weight itself, as does that of a weight whose average is lost. `all`: also where there is none yet.
inline void begin_averages(Backend& backend, std::span<Parameter* const> parameters, bool all) {
  for (Parameter* p : parameters) {
    if (all && p->decay && !p->average) p->average = backend.empty(p->value.shape());
    if (p->average) backend.copy(p->average, p->value);
  }
}

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
