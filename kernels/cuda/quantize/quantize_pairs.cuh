#pragma once
#include <cstring>

#include "kernels/cuda/quantize/quantize_tile.cuh"
#include "kernels/cuda/quantize/round_pairs.cuh"

namespace mxtape::cuda {

/// LaneTile of bf16 as they are in memory: words[j][i] has columns 2 i and 2 i + 1 of row j.
struct PairTile {
  static constexpr int rows = LaneTile::rows, pairs = LaneTile::cols / 2;
  std::uint32_t words[rows][pairs];
};

/// TileBlocks of PairTiles, all as bf16.
struct alignas(16) PairBlocks {
  std::uint16_t amax[2][tile_side];
  std::uint16_t least[2][tile_side];
  std::uint16_t limit[2][tile_side];

  __device__ PairBlock of_line(int half, int line) const {
    return {least[half][line] * 0x10001u, limit[half][line] * 0x10001u};
  }
  /// Of eight lines, two a pair.
  __device__ void load_lines(PairBlock (&of_pairs)[PairTile::pairs], int half, int first) const {
    std::uint32_t words[2][PairTile::pairs];
    std::memcpy(words[0], &least[half][first], sizeof words[0]);
    std::memcpy(words[1], &limit[half][first], sizeof words[1]);
    for (int i = 0; i < PairTile::pairs; ++i) of_pairs[i] = {words[0][i], words[1][i]};
  }
};

/// Where a lane's tile is in x, which may have its rows elsewhere than its copies.
template <bool by_heads>
__device__ inline LanePlace source_of_lane(const TileTask& task, std::int64_t first_row,
                                           std::int64_t first_col, const LanePlace& place) {
  if constexpr (!by_heads) return place;
  const RowLayout& x = task.layout;
  const std::int64_t matrix = first_row / x.rows, row = first_row % x.rows + lane_id() / 4;
  LanePlace source = place;
  source.first = matrix / x.side_by_side * x.to_below + matrix % x.side_by_side * x.to_next_matrix +
                 row * x.to_next_row + first_col + lane_id() % 4 * LaneTile::cols;
  source.step = 8 * x.to_next_row;
  return source;
}

/// Where rows are read by eights, which are inside or outside as a whole.
__device__ inline PairTile load_pairs(const bf16* x, const LanePlace& place) {
  PairTile tile;
  x += place.first;
  for (int j = 0; j < PairTile::rows; ++j) {
    const uint4 v = place.has_row(j) ? load_eight_bits(x) : make_uint4(0, 0, 0, 0);
    tile.words[j][0] = v.x, tile.words[j][1] = v.y, tile.words[j][2] = v.z, tile.words[j][3] = v.w;
    x += place.step;
  }
  return tile;
}

__device__ inline LaneTile widened(const PairTile& x) {
  LaneTile wide;
  for (int j = 0; j < PairTile::rows; ++j)
    for (int k = 0; k < LaneTile::cols; ++k)
      wide.values[j][k] = k % 2 ? high_of(x.words[j][k / 2]) : low_of(x.words[j][k / 2]);
  return wide;
}

__device__ inline std::uint32_t larger_magnitudes(std::uint32_t a, std::uint32_t b) {
  return pair_max(a & ~pair_signs, b & ~pair_signs);
}

/// As store_row_amax() of a LaneTile.
__device__ inline void store_row_amax(PairBlocks& blocks, const PairTile& x) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  std::uint32_t of_part[2];  // of rows 2 i and 2 i + 1
  for (int i = 0; i < 2; ++i) {
    std::uint32_t of_row[2];
    for (int j = 0; j < 2; ++j) {
      const auto& words = x.words[2 * i + j];
      of_row[j] = pair_max(larger_magnitudes(words[0], words[1]), larger_magnitudes(words[2], words[3]));
    }
    const std::uint32_t both = pair_max(low_halves(of_row[0], of_row[1]), high_halves(of_row[0], of_row[1]));
    of_part[i] = pair_max(both, warp_xor(both, 1));
  }
  const int i = t % 2;  // two lanes share a part: each stores two of the four rows
  const std::uint32_t mine = i != 0 ? of_part[1] : of_part[0];
  std::uint16_t* const rows = &blocks.amax[t / 2][g + 16 * i];
  rows[0] = std::uint16_t(mine);
  rows[8] = std::uint16_t(mine >> 16);
}

/// As store_column_amax() of a LaneTile: eight pairs, four of each half, go to eight lanes.
__device__ inline void store_column_amax(PairBlocks& blocks, const PairTile& x) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  std::uint32_t most[2 * PairTile::pairs];
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < PairTile::pairs; ++i)
      most[half * PairTile::pairs + i] = larger_magnitudes(x.words[2 * half][i], x.words[2 * half + 1][i]);
  const std::uint32_t mine =
      combine_columns(most, [](std::uint32_t a, std::uint32_t b) { return pair_max(a, b); });
  std::memcpy(&blocks.amax[g / PairTile::pairs][8 * t + 2 * (g % PairTile::pairs)], &mine, sizeof mine);
}

/// From the magnitudes to what elements are rounded with: lane l does it for line l. Between two warp_sync().
/// False if this lane had a block that is none for pairs.
__device__ inline bool store_blocks(PairBlocks& blocks, const TileCopy& copy, const PairGrid& grid) {
  const int line = lane_id();
  std::uint32_t first = blocks.amax[0][line], second = blocks.amax[1][line];
  for (int mask = 1; mask < copy.across; mask *= 2) {
    first = larger(first, warp_xor(first, mask));
    second = larger(second, warp_xor(second, mask));
  }
  const bool one = copy.along == tile_side;
  if (one) first = larger(first, second);
  bool covered = true;
  const PairBlock a = pair_block(copy.rule, grid, float_of(first << 16), covered);
  const PairBlock b = one ? a : pair_block(copy.rule, grid, float_of(second << 16), covered);
  blocks.least[0][line] = std::uint16_t(a.least);
  blocks.least[1][line] = std::uint16_t(b.least);
  blocks.limit[0][line] = std::uint16_t(a.limit);
  blocks.limit[1][line] = std::uint16_t(b.limit);
  return covered;
}

/// The largest magnitude of the block that element `along` of line `line` is in.
__device__ inline float amax_of(const PairBlocks& blocks, const TileCopy& copy, int line, int along) {
  std::uint32_t most = 0;
  const int first_line = line / copy.across * copy.across;
  for (int half = 0; half < 2; ++half)
    for (int i = first_line; i < first_line + copy.across; ++i)
      if (copy.along == tile_side || half == along / 16) most = larger(most, blocks.amax[half][i]);
  return float_of(most << 16);
}

}  // namespace mxtape::cuda
