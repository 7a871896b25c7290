#pragma once
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize/quantize_tile.h"

namespace mxtape::cuda {

inline constexpr int most_warps = 8;       // of a block: 256 columns
inline constexpr int blocks_of_tiles = 2;  // on a multiprocessor: 128 registers a thread
// Of a grid in y: blocks enough for any device (65535 are allowed). Further strips are done in turn.
inline constexpr std::int64_t most_strips = 4096;

/// A lane's share of its warp's tile of 32 rows and 32 columns: rows g + 8 j, columns 8 t to 8 t + 7 with
/// g = lane / 4, t = lane % 4: whole groups of eight, as loads of 16 bytes and random draws come in.
struct LaneTile {
  static constexpr int rows = 4, cols = 8;
  float values[rows][cols];
};

/// Where a lane's tile is in x and its copies.
struct LanePlace {
  std::int64_t first;  ///< element
  std::int64_t step;   ///< elements from one of the lane's rows to the next, eight rows below
  int rows_inside;     ///< row j is if 8 j is less; none is if no column is
  int cols_inside;
  __device__ bool has_row(int j) const { return 8 * j < rows_inside; }
  __device__ std::int64_t of_row(int j) const { return first + j * step; }
};
__device__ inline LanePlace place_of_lane(const TileTask& task, std::int64_t first_row,
                                          std::int64_t first_col) {
  const auto at_most_a_tile = [](std::int64_t n) { return int(n < tile_side ? n : tile_side); };
  const std::int64_t row = first_row + lane_id() / 4, col = first_col + lane_id() % 4 * LaneTile::cols;
  const int cols_inside = at_most_a_tile(task.cols - col);
  return {row * task.cols + col, 8 * task.cols, cols_inside > 0 ? at_most_a_tile(task.rows - row) : 0,
          cols_inside};
}

/// Scales and magnitudes of a tile's blocks in shared memory. Blocks of 16 have an entry each, [half][line];
/// those of 32 have theirs twice.
struct alignas(16) TileBlocks {
  std::uint32_t amax[2][tile_side];
  float inverse[2][tile_side];
  float scale[2][tile_side];
};

__device__ inline std::uint32_t magnitude_bits(float x) { return bits_of(x) & 0x7fffffffu; }
__device__ inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

/// Combines eight values with those of the other seven lanes of the same t: lane g gets the g-th of them.
/// Halves are exchanged, so seven shuffles do what twenty-four would.
template <class T, class Combine>
__device__ inline T combine_columns(const T (&of_lane)[LaneTile::cols], const Combine& combine) {
  const int g = lane_id() / 4;
  T four[4], two[2];
  for (int i = 0; i < 4; ++i) {
    const bool upper = (g & 4) != 0;
    four[i] = combine(upper ? of_lane[i + 4] : of_lane[i], warp_xor(upper ? of_lane[i] : of_lane[i + 4], 16));
  }
  for (int i = 0; i < 2; ++i) {
    const bool upper = (g & 2) != 0;
    two[i] = combine(upper ? four[i + 2] : four[i], warp_xor(upper ? four[i] : four[i + 2], 8));
  }
  const bool upper = (g & 1) != 0;
  return combine(upper ? two[1] : two[0], warp_xor(upper ? two[0] : two[1], 4));
}

/// Sums of 32 rows of the strip's columns, in the same order whatever the kernel.
__device__ inline void store_sums(const TileTask& task, std::int64_t first_row, std::int64_t first_col,
                                  const LaneTile& x) {
  float of_lane[LaneTile::cols];
  for (int k = 0; k < LaneTile::cols; ++k)
    of_lane[k] = (x.values[0][k] + x.values[1][k]) + (x.values[2][k] + x.values[3][k]);
  const float sum = combine_columns(of_lane, [](float a, float b) { return a + b; });
  const std::int64_t col = first_col + lane_id() % 4 * 8 + lane_id() / 4;
  if (col < task.cols) task.strip_sums[first_row / tile_side * task.cols + col] = sum;
}

/// Largest magnitudes of the 16-element parts of the tile's rows: [column / 16][row].
__device__ inline void store_row_amax(TileBlocks& blocks, const LaneTile& x) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  std::uint32_t most[LaneTile::rows];
  for (int j = 0; j < LaneTile::rows; ++j) {
    most[j] = magnitude_bits(x.values[j][0]);
    for (int k = 1; k < LaneTile::cols; ++k) most[j] = larger(most[j], magnitude_bits(x.values[j][k]));
  }
  const bool odd = (t & 1) != 0;  // two lanes share a part: each ends with two of the four rows
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t both = larger(odd ? most[i + 2] : most[i], warp_xor(odd ? most[i] : most[i + 2], 1));
    blocks.amax[t / 2][g + 8 * (i + (odd ? 2 : 0))] = both;
  }
}

/// The same of its columns: [row / 16][column].
__device__ inline void store_column_amax(TileBlocks& blocks, const LaneTile& x) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  for (int half = 0; half < 2; ++half) {
    std::uint32_t most[LaneTile::cols];
    for (int k = 0; k < LaneTile::cols; ++k)
      most[k] = larger(magnitude_bits(x.values[2 * half][k]), magnitude_bits(x.values[2 * half + 1][k]));
    blocks.amax[half][8 * t + g] =
        combine_columns(most, [](std::uint32_t a, std::uint32_t b) { return larger(a, b); });
  }
}

__device__ inline BlockScale scale_of(const TileCopy& copy, std::uint32_t amax, float encode) {
  return copy.encode ? floating_scale(copy.rule, float_of(amax), copy.rule.element_max, encode)
                     : power_of_two_scale(copy.rule, float_of(amax));
}

/// From the magnitudes to the scales, by definition: lane l does those of line l. Between two warp_sync().
__device__ inline void store_scales(TileBlocks& blocks, const TileCopy& copy) {
  const int line = lane_id();
  std::uint32_t first = blocks.amax[0][line], second = blocks.amax[1][line];
  for (int mask = 1; mask < copy.across; mask *= 2) {
    first = larger(first, warp_xor(first, mask));
    second = larger(second, warp_xor(second, mask));
  }
  const float encode = copy.encode ? *copy.encode : 1;
  if (copy.along == tile_side) first = larger(first, second);
  const BlockScale a = scale_of(copy, first, encode);
  const BlockScale b = copy.along == tile_side ? a : scale_of(copy, second, encode);
  blocks.inverse[0][line] = a.inverse;
  blocks.inverse[1][line] = b.inverse;
  blocks.scale[0][line] = a.scale;
  blocks.scale[1][line] = b.scale;
}

/// The draws of eight elements from element `first` of the stream on, two a word, the first in the low half.
/// A key's group has the bits of eight elements: both copies of an element use the same ones. `aligned`: the
/// first is the first of its group.
struct EightDraws {
  std::uint32_t words[4];
  __device__ std::uint32_t of(int k, int bits) const {
    const DrawPair draws = draw_pair(words[k / 2], bits);
    return k % 2 != 0 ? draws.high : draws.low;
  }
};
__device__ inline EightDraws draw_eight(const DrawKey& key, const RoundKeys& keys, std::uint64_t first,
                                        bool aligned) {
  const auto low = group_of(key, keys, first >> 3);
  EightDraws draws{{low[0], low[1], low[2], low[3]}};
  if (aligned) return draws;
  const auto high = group_of(key, keys, (first >> 3) + 1);
  std::uint32_t w[9] = {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3], 0};
  const int skip = int(first & 7);
  for (int i = 0; i < 7; ++i) w[i] = skip & 4 ? w[i + 2] : w[i];
  for (int i = 0; i < 6; ++i) w[i] = skip & 2 ? w[i + 1] : w[i];
  for (int i = 0; i < 4; ++i) draws.words[i] = skip & 1 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  return draws;
}

/// What an element is worth after rounding: the block's scale is a power of two or a float.
template <TileRounding rounding>
__device__ inline float rounded_value(const TileCopy& copy, float x, float inverse, float scale,
                                      std::uint32_t draw) {
  const float scaled = x * inverse;
  if constexpr (rounding == TileRounding::even)
    return round_even_fast(copy.grid, scaled) * scale;
  else if constexpr (rounding == TileRounding::stochastic)
    return round_stochastic_fast(copy.grid, scaled, draw) * scale;
  else
    return round_any(copy.rule, scaled, draw) * scale;
}

/// How a tile's elements and draws can be read and written.
struct TileAccess {
  bool by_eights;     ///< rows are on 16 bytes; eights of columns are inside or outside as a whole
  bool whole_groups;  ///< eights of a row share a group of draws
};

__device__ inline void store_row(bf16* y, const LanePlace& place, int j, bool by_eights,
                                 const Eight& values) {
  y += place.of_row(j);
  if (by_eights) return store_eight(y, values, place.has_row(j));
  for (int k = 0; k < LaneTile::cols; ++k)
    if (place.has_row(j) && k < place.cols_inside) store_at(y, k, values.values[k]);
}

template <TileRounding rounding>
__device__ inline bool is_stochastic(const TileTask& task) {
  return rounding == TileRounding::stochastic || (rounding == TileRounding::any && task.draw_bits != 0);
}

/// From a tile in registers to its copies: magnitudes and scales of blocks are shared through `in_rows` and
/// `in_columns`, which are the warp's own. They serve the next tile at once: its scales, which take the place
/// of what lanes may still read, come after its magnitudes and a warp_sync().
template <bool row_blocks, bool column_blocks, TileRounding rounding>
__device__ inline void quantize_tile(const TileTask& task, const DrawKey& key, const LanePlace& place,
                                     const LaneTile& x, TileBlocks& in_rows, TileBlocks& in_columns,
                                     const TileAccess& how) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const bool stochastic = is_stochastic<rounding>(task);
  if constexpr (row_blocks) store_row_amax(in_rows, x);
  if constexpr (column_blocks) store_column_amax(in_columns, x);
  warp_sync();
  if constexpr (row_blocks) store_scales(in_rows, task.row_blocks);
  if constexpr (column_blocks) store_scales(in_columns, task.column_blocks);
  warp_sync();

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    [[maybe_unused]] Eight inverse, scale;
    if constexpr (column_blocks) {
      inverse = load_eight(&in_columns.inverse[half][8 * t]);
      scale = load_eight(&in_columns.scale[half][8 * t]);
    }
#pragma unroll
    for (int j = 2 * half; j < 2 * half + 2; ++j) {
      EightDraws draws{};
      if (stochastic)
        draws = draw_eight(key, task.round_keys, key.first_element + std::uint64_t(place.of_row(j)),
                           how.whole_groups);
      [[maybe_unused]] Eight values;
      if constexpr (row_blocks) {
        const float row_inverse = in_rows.inverse[t / 2][g + 8 * j],
                    row_scale = in_rows.scale[t / 2][g + 8 * j];
        for (int k = 0; k < LaneTile::cols; ++k)
          values.values[k] = rounded_value<rounding>(task.row_blocks, x.values[j][k], row_inverse, row_scale,
                                                     stochastic ? draws.of(k, task.draw_bits) : 0);
        store_row(task.row_blocks.values, place, j, how.by_eights, values);
      }
      if constexpr (column_blocks) {
        for (int k = 0; k < LaneTile::cols; ++k)
          values.values[k] =
              rounded_value<rounding>(task.column_blocks, x.values[j][k], inverse.values[k], scale.values[k],
                                      stochastic ? draws.of(k, task.draw_bits) : 0);
        store_row(task.column_blocks.values, place, j, how.by_eights, values);
      }
    }
  }
}

inline bool on_16_bytes(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }
/// True if rows of x and its copies can be read and written eight elements at a time.
inline bool takes_vectors(const TileTask& task) {
  return task.cols % LaneTile::cols == 0 && on_16_bytes(task.x) && on_16_bytes(task.row_blocks.values) &&
         on_16_bytes(task.column_blocks.values);
}
/// True if eight elements in a row, from whole eights on, share a group of draws.
inline bool takes_whole_groups(const TileTask& task) {
  return task.cols % LaneTile::cols == 0 && task.draws.key.first_element % LaneTile::cols == 0;
}
inline TileAccess tile_access(const TileTask& task) {
  return {takes_vectors(task), takes_whole_groups(task)};
}
/// As many warps in a block as tiles side by side, as many blocks as strips of 32 rows.
inline Launch tile_launch(const TileTask& task) {
  const std::int64_t tiles = (task.cols + tile_side - 1) / tile_side;
  const std::int64_t strips = (task.rows + tile_side - 1) / tile_side;
  const unsigned warps = tiles < most_warps ? unsigned(tiles) : most_warps;
  return {{blocks_for(tiles, warps), unsigned(strips < most_strips ? strips : most_strips)},
          warps * warp_lanes};
}

}  // namespace mxtape::cuda
