#pragma once
#include "formats/quantize.h"
#include "kernels/cpu/loops/encode_loops.h"

namespace mxtape::cpu {

/// The extents of the window that is read from memory once and used for both copies and the column sums while
/// it is in the second cache: at most 256 KiB of x. Whole rows where they fit: what is contiguous costs
/// fewest pages and is what prefetchers follow. Blocks of 16, 32 or 64 never straddle two windows of at least
/// as many rows.
struct TileExtent {
  int rows, cols;
};
inline constexpr int tile_elements = 1 << 16;
constexpr TileExtent tile_extent(std::int64_t cols, int longest_block) {
  constexpr int granule = 64;
  const int rows = longest_block > 32 ? 64 : 32;
  const std::int64_t windows = (cols + tile_elements / rows - 1) / (tile_elements / rows);
  const std::int64_t width = windows > 0 ? (cols + windows - 1) / windows : 1;
  return {rows, int((width + granule - 1) / granule * granule)};
}

/// True if quantize_tile() can do q, whose values are then bf16: power-of-two or floating scales for blocks
/// of 16, 32 or 64 elements, or tiles of them; everything else goes through the scalar definition.
bool fits_tiles(const Quantizer& q);

/// Writes the values of one tile; `encode` is the tensor's scale of floating scales.
void quantize_tile(TileValues, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode,
                   TileDraws);
/// Writes its codes and scales.
void quantize_tile(TileCodes, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode, TileDraws);

/// The draws of a tile whose first element is element `first` of the tensor.
class DrawBuffer {
 public:
  TileDraws fill(const DrawKey&, std::uint64_t first, const Tile&);

 private:
  // Whole vectors of groups around a row's elements, which may start and end inside a group of eight.
  static constexpr int per_vector = 128;
  static constexpr int most_rows = 64;
  alignas(64) std::uint16_t bits_[tile_elements + most_rows * per_vector];
};

}  // namespace mxtape::cpu
