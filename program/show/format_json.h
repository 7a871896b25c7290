#pragma once
#include <cmath>

#include "formats/codec/codec.h"
#include "formats/quantizer.h"
#include "formats/statistics.h"
#include "program/show/report.h"

namespace mxtape {

/// Formats of so many bits have all their numbers listed.
inline constexpr int most_listed_bits = 8;

/// What a format costs: bits_per_element, bits_per_block, saved_against_f32, saved_against_bf16.
inline Value storage_of(const Quantizer& q) {
  return object("bits_per_element", q.bits_per_element(), "bits_per_block",
                Value(bits_per_block(q),
                      q.scale == ScaleKind::none ? "no blocks" : "a block is as large as the tensor's axis"),
                "saved_against_f32", memory_saved(q, 32), "saved_against_bf16", memory_saved(q, 16));
}

/// The numbers of an element: largest, smallest_normal, smallest_positive, values.
inline Value numbers_of(const ElementFormat& f) {
  return object("largest", double(f.max_finite()), "smallest_normal",
                f.is_integer() ? Value(nullptr, "integers have no exponents")
                               : Value(std::ldexp(1.0, f.min_exponent())),
                "smallest_positive", double(f.min_positive()), "values",
                f.bits() > most_listed_bits ? Value(nullptr, "more than are listed") : Value(values_of(f)));
}

}  // namespace mxtape
