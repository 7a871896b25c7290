#pragma once
#include <algorithm>

#include "core/parallel.h"
#include "formats/decide_by_average.h"
#include "formats/quantize_blocks.h"
#include "kernels/cpu/loops/quantize_loops.h"
#include "kernels/rounded.h"

namespace mxtape::cpu {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

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

/// True if find_scales() can do q: power-of-two, floating or f32 scales, for blocks of 8, 16, 32 or 64. Where
/// neither sums nor draws decide, also for 128 and 256, for tiles, and for the whole tensor.
bool has_scale_loops(const Quantizer& q);
/// True if quantize_tile() can do q, with a midpoint into f32 values; everything else goes through the scalar
/// definition.
bool fits_tiles(const Quantizer& q);
/// Of blocks in the loops: longer ones are several that share their scale.
constexpr int loop_length(const BlockShape& b) { return b.along == 0 || b.along > 64 ? 64 : b.along; }

/// What the blocks of a tile are rounded with: scales in entries as QuantizeLoops has them.
struct TileBlocks {
  static constexpr int room = tile_elements / 8 + 16;
  alignas(64) std::uint32_t amax[room];  ///< of `count` blocks, row-major; or what statistic=rms makes of it
  alignas(64) float inverse[room];
  alignas(64) float scale[room];
  int count;
  TileScales scales() { return {inverse, scale}; }
};

/// What decides about the roundings of a tile, of which element 0 is element `first` of a tensor with rows of
/// `cols`: `elements` for its elements and, by `key`, one draw a block for its scales.
struct CopyDraws {
  const DrawKey* key = nullptr;
  std::uint64_t first = 0;
  std::int64_t cols = 0;
  TileDraws elements{};
  float amax = 0;                   ///< of the tensor, where it is one block
  const float* averages = nullptr;  ///< with `ema`, rows as the tensor's; x itself if there are none
};

/// True if every value is exact in bf16. `encode`: tensor_encode_scale() of the tensor, or 1. EDEN's factor,
/// which changes no inverse, is left out unless `for_values`.
bool find_scales(TileBlocks&, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode,
                 const CopyDraws& = {}, bool for_values = true);

/// Writes what `Out` says of one tile: TileValues, or TileCodes with their scales, or TileGradients through
/// its rounding, with ste=mask.
template <class Out>
void quantize_tile(const Out&, const Tile&, Axis, const Quantizer&, const BlockRule&, float encode,
                   const CopyDraws&);

/// What a thread needs beside a tile. It is kept: stacks may be too small for it.
struct TileScratch {
  static TileScratch& own();
  /// The draws of the elements of a tile whose first is element `first` of the tensor.
  TileDraws draw(const DrawKey&, std::uint64_t first, const Tile&);

  /// Floats between rotated rows, so that a column's do not all fall on a few lines of the first cache.
  static constexpr int row_gap = 16;
  // Whole vectors of groups around a row's elements, which may start and end inside a group of eight.
  static constexpr int per_vector = 128;
  TileBlocks blocks, at_four, midpoints;
  alignas(64) float prepared[tile_elements + 16];  ///< x less its midpoints, or averages scaled as x
  alignas(64) float rotated[tile_elements + most_tile_rows * row_gap];
  alignas(64) std::uint16_t draws[tile_elements + most_tile_rows * per_vector];
  alignas(64) std::uint16_t scale_groups[8 * TileBlocks::room + per_vector];
  alignas(64) std::uint16_t scale_draws[TileBlocks::room];
};

/// Calls visit(tile, row, col, draws) for windows of x [rows, cols], shared among the threads. `key`: of the
/// elements' draws, or null.
template <class Visit>
void for_tiles(const float* x, std::int64_t rows, std::int64_t cols, TileExtent extent, const DrawKey* key,
               const Visit& visit) {
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  parallel_for((rows + extent.rows - 1) / extent.rows * across, 1, [&](std::int64_t index, std::int64_t) {
    const std::int64_t row = index / across * extent.rows, col = index % across * extent.cols;
    const std::int64_t first = row * cols + col, next = row + std::int64_t{threads()} * extent.rows;
    const Tile tile{x + first, cols, int(std::min<std::int64_t>(extent.rows, rows - row)),
                    int(std::min<std::int64_t>(extent.cols, cols - col)),
                    across == 1 && next + extent.rows <= rows ? (next - row) * cols : 0};
    visit(tile, row, col, key ? TileScratch::own().draw(*key, std::uint64_t(first), tile) : TileDraws{});
  });
}

/// quantize_block() for all blocks of x [rows, cols], shared among the threads: each range has a copy of
/// `sink`. With `ema` the averages are x itself if none are given.
template <class Sink>
void blocks_by_definition(const Quantization& by, const BlockRule& rule, float encode, const float* x,
                          std::int64_t rows, std::int64_t cols, const Sink& sink,
                          const float* averages = nullptr) {
  const Quantizer& q = by.quantizer;
  constexpr std::int64_t work = 1 << 13;  // elements that pay for handing out a range
  const BlockExtent extent =
      q.scale == ScaleKind::none ? BlockExtent{1, work} : block_extent(q.block, rows, cols, by.axis);
  const BlockExtent group = group_extent(q, rows, cols, by.axis);
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  const auto draw = [&](std::int64_t i) { return decision(q, by.draws, i, averages ? averages : x); };
  parallel_for(
      (rows + extent.rows - 1) / extent.rows * across,
      std::max<std::int64_t>(work / (extent.rows * extent.cols), 1),
      [&](std::int64_t begin, std::int64_t end) {
        Sink own = sink;
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t r = b / across * extent.rows, c = b % across * extent.cols;
          const BlockRange block{r, std::min(rows, r + extent.rows), c, std::min(cols, c + extent.cols)};
          const float of_group =
              rule.group_scale ? encode_of_group(x, rows, cols, rule, group, block) : encode;
          quantize_block(x, cols, rule, block, of_group, draw, own);
        }
      });
}

}  // namespace mxtape::cpu
