#pragma once
#include "program/json/json_output.h"
#include "train/saved/packed_model.h"

namespace mxtape {

/// Layers, formats, bits and bytes of a packed model, with the sum and its ratio to f32. Tensors of one axis,
/// norms and biases, are one line.
void print_packed_table(const PackedModelFile&);
/// Fields of the same, with every tensor in a line of its own.
void put_packed_table(Json&, const PackedModelFile&);

/// `mxtape info` of a packed model.
void print_packed_info(const PackedModelFile&);
Json packed_info_json(const PackedModelFile&);

}  // namespace mxtape
