#pragma once
#include "autograd/linear_operands.h"
#include "kernels/observers/measure.h"
#include "nn/model.h"

namespace mxtape {

/// Measures the next step, with the copies of weights that it will find at hand; what is missing it makes
/// itself.
inline void start(Measure& measure, Backend& backend, Model& model) {
  const std::vector<LinearWeight> all = model.linear_weights();
  std::map<std::uint32_t, Measure::Weight> weights;
  for (const LinearWeight& w : all) weights[w.tensor_id] = {w.layer, w.parameter.value};
  measure.start(std::move(weights));
  for (const LinearWeight& w : all)
    for (const Rounded& copy : own_copies(w.parameter))
      measure.measure_copy(backend, copy,
                           copy.by.again ? value_of(backend, w.parameter.copies.fprop) : w.parameter.value);
}

}  // namespace mxtape
