#pragma once
#include "program/show/report.h"
#include "train/saved/packed_model.h"

namespace mxtape {

/// Layers, formats, bits and bytes of a packed model, with the sum and its ratio to f32. For people, tensors
/// of one axis, norms and biases, are one line.
void put_packed_table(Report&, const PackedModelFile&);

}  // namespace mxtape
