#pragma once
#include "nn/model.h"

namespace mxtape::test {

/// The same roundings in every layer, the head included.
inline PrecisionPlan uniform_plan(const ModelConfig& c, const LinearQuant& linear = {},
                                  const AttentionQuant& attention = {}) {
  PrecisionPlan plan;
  for (const std::string& name : linear_layer_names(c)) plan.linear[name] = linear;
  for (const std::string& name : attention_layer_names(c)) plan.attention[name] = attention;
  return plan;
}

}  // namespace mxtape::test
