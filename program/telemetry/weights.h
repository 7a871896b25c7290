#pragma once
#include "autograd/round.h"
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
    const void *const forward = copies.fprop.elements.raw(), *const own = copies.dgrad.elements.raw();
    if (forward && forward != p.value.raw()) backend.measure_weight(weight.layer, p.value, copies.fprop);
    if (!own || own == p.value.raw() || own == forward) continue;
    if (copies.dgrad.by.again)
      backend.measure_weight(weight.layer, copies.fprop.elements, copies.dgrad, copies.fprop.multiplier);
    else
      backend.measure_weight(weight.layer, p.value, copies.dgrad);
  }
}

}  // namespace mxtape
