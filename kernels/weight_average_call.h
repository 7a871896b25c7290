#pragma once
#include "kernels/calls.h"

namespace mxtape::call {

/// average = decay average + (1 - decay) value, in place; it stays as it is if factor[1] is NaN: a step that
/// has changed nothing (ClipFactor).
struct WeightAverage {
  static constexpr std::string_view name = "weight_average";
  Tensor average, value, factor;
  float decay;
  static void each(auto& c, const auto& f) {
    f(state, "average", c.average), f(input, "value", c.value), f(input, "factor", c.factor);
  }
};

}  // namespace mxtape::call
