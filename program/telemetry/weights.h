#pragma once
#include <array>

#include "autograd/operands/operands.h"
#include "kernels/around/measuring_backend.h"
#include "nn/model.h"

namespace mxtape {

/// Tells the backend which parameter is the weight of which linear layer.
inline void name_weights(MeasuringBackend& backend, Model& model) {
  for (const LinearWeight& weight : model.linear_weights())
    backend.name_weight(weight.parameter.value, weight.layer);
}

/// Measures the copies of weights that the next step will find at hand; what is missing it makes itself.
inline void measure_copies_at_hand(MeasuringBackend& backend, Model& model) {
  for (const LinearWeight& weight : model.linear_weights()) {
    const Parameter& p = weight.parameter;
    const WeightCopies& copies = p.copies;
    if (copies.version != p.version) continue;
    const auto measure = [&](const QuantizedCopy& copy, const Tensor& x, const Tensor& multiplier) {
      backend.measure_weight(weight.layer, x, std::span(&copy, 1), multiplier);
    };
    const void* const forward = copies.fprop.values.raw();
    if (forward && forward != p.value.raw()) measure(copies.fprop, p.value, {});
    const void* const own = copies.dgrad.values.raw();
    if (!own || own == p.value.raw() || own == forward) continue;
    if (copies.source == OperandSource::forward)
      measure(copies.dgrad, copies.fprop.values, copies.fprop.multiplier);
    else
      measure(copies.dgrad, p.value, {});
  }
}

}  // namespace mxtape
