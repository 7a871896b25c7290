#pragma once
#include "formats/quantizer.h"
#include "program/show/report.h"

namespace mxtape {

/// Formats of so many bits have all their numbers listed.
inline constexpr int most_listed_bits = 8;

/// What a format costs: bits_per_element, bits_per_block, saved_against_f32, saved_against_bf16.
Value storage_of(const Quantizer&);
/// The numbers of an element: largest, smallest_normal, smallest_positive, values.
Value numbers_of(const ElementFormat&);

}  // namespace mxtape
