#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// A float format as a code of `bits` bits, the sign in the highest if it has one.
struct FloatNumbers {
  int bits, mantissa_bits, min_exponent;
  float largest;
  std::uint32_t carry = 0;  ///< a block's exponent, by ExponentRule
  int subtract = 0;
};

/// The integer codes of an element format (formats/integer_grid.h) by their numbers: of a float, sign
/// and place on the grid; of an integer, its lowest bits.
struct CodeNumbers {
  int bits;
  int mantissa_bits;
  int binades;  ///< of normal numbers; 0: an integer format
};

/// The vector loops of the narrow layout (kernels/narrow.h).
struct NarrowLoops {
  static constexpr int chunk = 256;  ///< columns of values that are taken together
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
  /// bf16 values: one row of blocks, [rows, cols], in which each column has a scale. Rows of codes begin at
  /// whole bytes. `scratch` has room for a number a column, columns rounded up to whole chunks.
  void (*pack_values)(std::uint8_t* y, std::uint8_t* scales, float* scratch, const std::uint16_t* x,
                      std::int64_t rows, std::int64_t cols, FloatNumbers);
  void (*unpack_values)(std::uint16_t* y, const std::uint8_t* x, const std::uint8_t* scales, float* scratch,
                        std::int64_t rows, std::int64_t cols, FloatNumbers);
};

MXT_TIER_TABLE(NarrowLoops, narrow_loops)

}  // namespace mxtape::cpu
