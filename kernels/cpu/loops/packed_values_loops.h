#pragma once
#include <cstdint>

#include "kernels/cpu/loops/float_numbers.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// The vector loops of packed bf16 values (kernels/narrow.h): one row of blocks, [rows, cols], in
/// which each column has a scale. Rows of codes begin at whole bytes. `scratch` has room for a number a
/// column, columns rounded up to whole chunks.
struct PackedValuesLoops {
  static constexpr int chunk = 256;
  void (*pack)(std::uint8_t* y, std::uint8_t* scales, float* scratch, const std::uint16_t* x,
               std::int64_t rows, std::int64_t cols, FloatNumbers);
  void (*unpack)(std::uint16_t* y, const std::uint8_t* x, const std::uint8_t* scales, float* scratch,
                 std::int64_t rows, std::int64_t cols, FloatNumbers);
};

MXT_TIER_TABLE(PackedValuesLoops, packed_values_loops)

}  // namespace mxtape::cpu
