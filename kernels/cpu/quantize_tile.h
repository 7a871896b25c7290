#pragma once
#include "formats/quantize.h"
#include "kernels/cpu/quantize_loops.h"

namespace mxtape::cpu {

// The window that is read from memory once and used for both copies and the column sums while it is in the
// cache: 64 KiB of x, in rows of 1 KiB that the machine's prefetchers can follow. Blocks of 16, 32 or 64
// never straddle two.
inline constexpr int tile_rows = 64, tile_cols = 256;

/// True if quantize_tile() can do q, whose values are then bf16: power-of-two or floating scales for blocks
/// of 16, 32 or 64 elements, or tiles of them; everything else goes through the scalar definition.
bool fits_tiles(const Quantizer& q);

/// Writes the values of one tile; `encode` is the tensor's scale of floating scales.
void quantize_tile(TileValues, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode,
                   TileDraws);

/// The draws of a tile whose first element is element `first` of the tensor.
class DrawBuffer {
 public:
  TileDraws fill(const DrawKey&, std::uint64_t first, const Tile&);

 private:
  // Whole vectors of groups around a row's elements, which may start and end inside a group of eight.
  static constexpr int per_vector = 128;
  static constexpr int row_stride = tile_cols + per_vector;
  alignas(64) std::uint16_t bits_[tile_rows * row_stride];
};

}  // namespace mxtape::cpu
