#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize/quantize_pairs.cuh"

namespace mxtape::cuda {
namespace {

/// Blocks on a multiprocessor: 80 registers a thread, or 64.
constexpr int blocks_at_once(bool stochastic) { return stochastic ? 3 : 4; }

struct PairTask {
  TileTask tile;
  PairGrid row_grid, column_grid;
};

/// Eight elements with 128 random bits, which the even rounding does not look at.
template <bool stochastic>
__device__ inline uint4 rounded(const PairGrid& grid, const PairBlock (&blocks)[PairTile::pairs],
                                const std::uint32_t (&x)[PairTile::pairs],
                                const std::array<std::uint32_t, 4>& random, int draw_bits) {
  std::uint32_t y[PairTile::pairs];
  for (int i = 0; i < PairTile::pairs; ++i)
    if constexpr (stochastic)
      y[i] = round_stochastic(grid, blocks[i], x[i], draw_pair(random[i], draw_bits));
    else
      y[i] = round_even(grid, blocks[i], x[i]);
  return make_uint4(y[0], y[1], y[2], y[3]);
}

template <bool row_blocks, bool column_blocks, bool stochastic>
__device__ inline void round_tile(const PairTask& task, const DrawKey& key, const LanePlace& place,
                                  const PairTile& x, const PairBlocks& in_rows,
                                  const PairBlocks& in_columns) {
  const TileTask& tile = task.tile;
  const int g = lane_id() / 4, t = lane_id() % 4;
  const std::uint64_t first_group = (key.first_element + std::uint64_t(place.first)) / LaneTile::cols,
                      groups_to_next = std::uint64_t(place.step) / LaneTile::cols;
  [[maybe_unused]] PairBlock of_columns[PairTile::pairs]{};
#pragma unroll
  for (int j = 0; j < PairTile::rows; ++j) {
    std::array<std::uint32_t, 4> random{};
    if constexpr (stochastic)
      random = group_of(key, tile.round_keys, first_group + unsigned(j) * groups_to_next);
    if constexpr (row_blocks) {
      const PairBlock one = in_rows.of_line(t / 2, g + 8 * j);
      const uint4 y =
          rounded<stochastic>(task.row_grid, {one, one, one, one}, x.words[j], random, tile.draw_bits);
      store_16(tile.row_blocks.values + place.of_row(j), y, place.has_row(j));
    }
    if constexpr (column_blocks) {
      if (j % 2 == 0) in_columns.load_lines(of_columns, j / 2, 8 * t);
      const uint4 y = rounded<stochastic>(task.column_grid, of_columns, x.words[j], random, tile.draw_bits);
      store_16(tile.column_blocks.values + place.of_row(j), y, place.has_row(j));
    }
  }
}

// A tile with blocks that pairs do not cover, which training does not meet: element by element.
template <bool in_columns>
__device__ inline void round_by_definition(const TileTask& task, const TileCopy& copy, const DrawKey& key,
                                           const LanePlace& source, const LanePlace& place,
                                           const PairBlocks& blocks) {
  const auto* const x = static_cast<const bf16*>(task.x);
#pragma unroll 1
  for (int i = 0; i < LaneTile::rows * LaneTile::cols; ++i) {
    const int j = i / LaneTile::cols, k = i % LaneTile::cols;
    if (!place.has_row(j)) return;
    const float value = value_at(x, source.of_row(j) + k);
    const std::int64_t at = place.of_row(j) + k;
    const int down = lane_id() / 4 + 8 * j, right = lane_id() % 4 * 8 + k;
    const float amax = in_columns ? amax_of(blocks, copy, right, down) : amax_of(blocks, copy, down, right);
    const BlockScale scale = power_of_two_scale(copy.rule, amax);
    const std::uint32_t draw = task.draw_bits ? draw_bits(key, std::uint64_t(at), task.draw_bits) : 0;
    store_at(copy.values, at, value_of(scale, round_any(copy.rule, value * scale.inverse, draw)));
  }
}

// tile_kernel() for bf16 and power-of-two scales.
template <bool row_blocks, bool column_blocks, bool stochastic, bool by_heads>
__global__ __launch_bounds__(most_warps* warp_lanes,
                             blocks_at_once(stochastic)) void pairs_kernel(PairTask task) {
  __shared__ PairBlocks of_rows[most_warps];
  __shared__ PairBlocks of_columns[most_warps];
  PairBlocks &in_rows = of_rows[warp_id()], &in_columns = of_columns[warp_id()];
  const TileTask& tile = task.tile;
  const std::int64_t first_col =
      (std::int64_t(blockIdx.x) * (blockDim.x / warp_lanes) + warp_id()) * tile_side;
  if (first_col >= tile.cols) return;  // the whole warp leaves together; warps do not wait for each other
  const DrawKey key = stochastic ? now(tile.draws) : DrawKey{};

  for (std::int64_t first_row = std::int64_t(blockIdx.y) * tile_side; first_row < tile.rows;
       first_row += std::int64_t(gridDim.y) * tile_side) {
    const LanePlace place = place_of_lane(tile, first_row, first_col);
    const LanePlace source = source_of_lane<by_heads>(tile, first_row, first_col, place);
    const PairTile x = load_pairs(static_cast<const bf16*>(tile.x), source);
    if (tile.strip_sums) store_sums(tile, first_row, first_col, widened(x));
    if constexpr (row_blocks) store_row_amax(in_rows, x);
    if constexpr (column_blocks) store_column_amax(in_columns, x);
    warp_sync();
    bool covered = true;
    if constexpr (row_blocks) covered &= store_blocks(in_rows, tile.row_blocks, task.row_grid);
    if constexpr (column_blocks) covered &= store_blocks(in_columns, tile.column_blocks, task.column_grid);
    const bool all_covered = warp_ballot(!covered) == 0;
    warp_sync();
    if (all_covered) {
      round_tile<row_blocks, column_blocks, stochastic>(task, key, place, x, in_rows, in_columns);
    } else {
      if constexpr (row_blocks)
        round_by_definition<false>(tile, tile.row_blocks, key, source, place, in_rows);
      if constexpr (column_blocks)
        round_by_definition<true>(tile, tile.column_blocks, key, source, place, in_columns);
      warp_sync();  // the next tile's magnitudes take the place of what others still read
    }
  }
}

template <bool row_blocks, bool column_blocks, bool stochastic>
void launch_pairs(cudaStream_t stream, const TileTask& tile) {
  const PairTask task{tile, pair_grid(tile.row_blocks.rule), pair_grid(tile.column_blocks.rule)};
  const auto kernel = tile.layout.rows != 0 ? pairs_kernel<row_blocks, column_blocks, stochastic, true>
                                            : pairs_kernel<row_blocks, column_blocks, stochastic, false>;
  launch("quantize_pairs", stream, tile_launch(tile), kernel, task);
}

template <bool stochastic>
void launch_copies(cudaStream_t stream, const TileTask& task) {
  const bool in_rows = task.row_blocks.values, in_columns = task.column_blocks.values;
  if (in_rows && in_columns) return launch_pairs<true, true, stochastic>(stream, task);
  if (in_rows) return launch_pairs<true, false, stochastic>(stream, task);
  launch_pairs<false, true, stochastic>(stream, task);
}

}  // namespace

bool fits_pairs(const TileTask& task) {
  const auto fits = [](const TileCopy& copy) {
    return !copy.values || (!copy.encode && has_pair_grid(copy.rule));
  };
  const bool stochastic = task.rounding == TileRounding::stochastic;
  const RowLayout& x = task.layout;
  if ((x.to_next_row | x.to_next_matrix | x.to_below) % LaneTile::cols != 0) return false;
  return task.dtype == DType::bf16 && (stochastic || task.rounding == TileRounding::even) &&
         (task.row_blocks.values || task.column_blocks.values) && fits(task.row_blocks) &&
         fits(task.column_blocks) && takes_vectors(task) && (!stochastic || takes_whole_groups(task));
}

void quantize_pairs(cudaStream_t stream, const TileTask& task) {
  if (task.rounding == TileRounding::stochastic) return launch_copies<true>(stream, task);
  launch_copies<false>(stream, task);
}

}  // namespace mxtape::cuda
