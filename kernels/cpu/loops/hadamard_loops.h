#pragma once
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu {

inline constexpr int most_rotated = 256;  // the longest chunk of a Rotation

/// What each position along the axis is multiplied by before and after the transform: 1 or -1.
struct HadamardSigns {
  const float *before, *after;
};

/// The vector loops of the Hadamard transform, bit for bit rotate_reference(): the same butterflies in the
/// same order, many at a time. y may be x.
struct HadamardLoops {
  /// Each row of a tile in chunks of `size`, a ragged end in smaller ones.
  void (*along_row)(float* y, std::int64_t y_stride, const Tile& x, HadamardSigns, int size);
  /// One chunk of `size` rows, `cols` columns.
  void (*along_column)(float* y, std::int64_t y_stride, const float* x, std::int64_t x_stride,
                       std::int64_t cols, HadamardSigns, int size);
};

MXT_TIER_TABLE(HadamardLoops, hadamard_loops)

}  // namespace mxtape::cpu
