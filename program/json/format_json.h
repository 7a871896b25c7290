#pragma once
#include "formats/quantizer.h"
#include "program/json/json_output.h"

namespace mxtape {

/// What a format costs: bits_per_element, bits_per_block, saved_against_f32, saved_against_bf16.
void put_storage(Json& object, const Quantizer&);

}  // namespace mxtape
