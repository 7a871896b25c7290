#pragma once
#include <algorithm>

#include "core/parallel.h"
#include "formats/quantize.h"
#include "kernels/cpu/loops/encode_loops.h"
#include "kernels/cpu/loops/straight_through_loops.h"

namespace mxtape::cpu {

/// The extents of the window that is read from memory once and used for both copies and the column sums while
/// it is in the second cache: at most 256 KiB of x. Whole rows where they fit: what is contiguous costs
/// fewest pages and is what prefetchers follow. What starts at multiples of `down` rows and `right` columns,
/// powers of two up to 256, and is no longer, never straddles two windows.
struct TileExtent {
  int rows, cols;
};
inline constexpr int tile_elements = 1 << 16, most_tile_rows = 256;
constexpr TileExtent tile_extent(std::int64_t cols, int down, int right = 1) {
  const int rows = std::max(32, down), granule = std::max(64, right);
  const std::int64_t windows = (cols + tile_elements / rows - 1) / (tile_elements / rows);
  const std::int64_t width = windows > 0 ? (cols + windows - 1) / windows : 1;
  return {rows, int((width + granule - 1) / granule * granule)};
}

/// True if find_scales() can do q: power-of-two or floating scales for blocks of 8, 16, 32 or 64 elements, or
/// tiles of them where neither sums nor draws decide.
bool has_scale_loops(const Quantizer& q);
/// True if quantize_tile() can do q, whose values are then bf16; everything else goes through the scalar
/// definition.
bool fits_tiles(const Quantizer& q);

/// The tensor's scale for floating scales, else 1, as quantize_blocks().
float encode_of(const Quantizer&, const BlockRule&, const float* x, std::int64_t count);

/// What the blocks of a tile are rounded with, entries as QuantizeLoops has them.
struct TileBlocks {
  static constexpr int room = tile_elements / 8 + 16;
  alignas(64) std::uint32_t amax[room];  ///< or what statistic=rms makes of it
  alignas(64) float inverse[room];
  alignas(64) float scale[room];
  int count;
  TileScales scales() { return {inverse, scale}; }
};
/// True if every value is exact in bf16. `encode`: encode_of() the tensor.
bool find_scales(TileBlocks&, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode, TileDraws);

/// Writes the values of one tile.
void quantize_tile(TileValues, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode,
                   TileDraws);
/// Writes its codes and scales.
void quantize_tile(TileCodes, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode, TileDraws);
/// Writes gradients through its rounding, with ste=mask.
void quantize_tile(TileGradients, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode,
                   TileDraws);

/// The draws of a tile whose first element is element `first` of the tensor.
class DrawBuffer {
 public:
  TileDraws fill(const DrawKey&, std::uint64_t first, const Tile&);

 private:
  // Whole vectors of groups around a row's elements, which may start and end inside a group of eight.
  static constexpr int per_vector = 128;
  alignas(64) std::uint16_t bits_[tile_elements + most_tile_rows * per_vector];
};

/// Calls visit(tile, row, col, draws) for windows of x [rows, cols], shared among the threads. `key`: of the
/// draws, or null.
template <class Visit>
void for_tiles(const float* x, std::int64_t rows, std::int64_t cols, TileExtent extent, const DrawKey* key,
               const Visit& visit) {
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  parallel_for((rows + extent.rows - 1) / extent.rows * across, 1, [&](std::int64_t index, std::int64_t) {
    const std::int64_t row = index / across * extent.rows, col = index % across * extent.cols;
    const std::int64_t first = row * cols + col;
    const Tile tile{x + first, cols, int(std::min<std::int64_t>(extent.rows, rows - row)),
                    int(std::min<std::int64_t>(extent.cols, cols - col))};
    DrawBuffer buffer;
    visit(tile, row, col, key ? buffer.fill(*key, std::uint64_t(first), tile) : TileDraws{});
  });
}

}  // namespace mxtape::cpu
