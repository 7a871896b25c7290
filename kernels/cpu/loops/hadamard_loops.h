#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

inline constexpr int most_rotated = 256;  // the longest chunk of a Rotation

/// The vector loops of the Hadamard transform, bit for bit rotate_reference(): the same butterflies in the
/// same order, many at a time. `signs` holds the sign of each position along the axis.
struct HadamardLoops {
  /// One row of `cols` elements in chunks of `size`, a ragged end in smaller ones.
  void (*along_row)(float* y, const float* x, std::int64_t cols, const float* signs, int size);
  /// One chunk of `size` rows, all columns; rows of x and y are cols apart.
  void (*along_column)(float* y, const float* x, std::int64_t cols, const float* signs, int size);
};

MXT_TIER_TABLE(HadamardLoops, hadamard_loops)

}  // namespace mxtape::cpu
