#pragma once
#include <cstdint>

#include "kernels/cpu/loops/float_numbers.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// The integer codes of an element format (formats/integer_grid.h) by their numbers: of a float, sign
/// and place on the grid; of an integer, its lowest bits.
struct CodeNumbers {
  int bits;
  int mantissa_bits;
  int binades;  ///< of normal numbers; 0: an integer format
};

/// The vector loops of packed integer codes (kernels/narrow.h).
struct PackedCodesLoops {
  /// `count` codes, a multiple of 64, to count / 8 * bits bytes, and back.
  void (*pack_codes)(std::uint8_t* y, const std::int8_t* codes, std::int64_t count, CodeNumbers);
  void (*unpack_codes)(std::int8_t* codes, const std::uint8_t* x, std::int64_t count, CodeNumbers);
  /// f32 scales, a multiple of 16 of them, that are powers of two times a unit, to their exponent fields, and
  /// back.
  void (*pack_exponents)(std::uint8_t* y, const float* scales, std::int64_t count, float per_unit);
  void (*unpack_exponents)(float* scales, const std::uint8_t* x, std::int64_t count, float unit);
  /// The same of scales that are floats, to their codes; NaN to `nan`.
  void (*pack_floats)(std::uint8_t* y, const float* scales, std::int64_t count, float per_unit, FloatNumbers,
                      std::uint32_t nan);
};

MXT_TIER_TABLE(PackedCodesLoops, packed_codes_loops)

}  // namespace mxtape::cpu
