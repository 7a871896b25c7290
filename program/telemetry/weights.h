#pragma once
#include "kernels/around/measuring_backend.h"
#include "nn/model.h"

namespace mxtape {

/// Tells the backend which parameter is the weight of which linear layer: "<layer>.weight", and for a tied
/// head the token table.
inline void name_weights(MeasuringBackend& backend, Model& model) {
  constexpr std::string_view suffix = ".weight";
  const Parameter* table = nullptr;
  bool has_head = false;
  for (const Parameter* parameter : model.parameters()) {
    if (parameter->name == "tokens.weight") table = parameter;
    has_head |= parameter->name == "head.weight";
    if (parameter->name.ends_with(suffix) && parameter->value.shape().rank == 2)
      backend.name_weight(parameter->value,
                          parameter->name.substr(0, parameter->name.size() - suffix.size()));
  }
  if (table && !has_head) backend.name_weight(table->value, "head");
}

}  // namespace mxtape
