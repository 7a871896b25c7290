#pragma once
#include <vector>

#include "kernels/cpu/quantize_tile.h"
#include "kernels/rounded.h"

namespace mxtape::cpu {

/// A rotation of a matrix [rows, cols], bit for bit rotate_reference(), tile by tile.
class TileRotation {
 public:
  /// Throws Error for a size or a key of the signs that no rotation has.
  TileRotation(const Quantization&, std::int64_t rows, std::int64_t cols, RotationWay = RotationWay::forth);
  /// Of its chunks; 1 across them.
  int down() const { return axis_ == Axis::column ? size_ : 1; }
  int right() const { return axis_ == Axis::row ? size_ : 1; }

  /// The rotated tile, whose rows lie `stride` apart in y. The tile starts at `row` and `col` of the matrix
  /// and, along the axis, ends with a chunk.
  Tile operator()(float* y, std::int64_t stride, const Tile&, std::int64_t row, std::int64_t col) const;
  /// The same in this thread's TileScratch.
  Tile operator()(const Tile& x, std::int64_t row, std::int64_t col) const {
    return (*this)(TileScratch::own().rotated, x.cols + TileScratch::row_gap, x, row, col);
  }

 private:
  int size_;
  Axis axis_;
  std::vector<float> before_, after_;  ///< HadamardSigns of each position along the axis
};

/// The largest magnitude of x, or of x after a rotation.
float amax_of(const Tensor& x, const TileRotation*);

}  // namespace mxtape::cpu
