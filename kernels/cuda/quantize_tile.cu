#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize_tile.cuh"

namespace mxtape::cuda {
namespace {

constexpr int most_warps = 8;                // of a block: 256 columns
constexpr int blocks_at_once = 2;            // on a multiprocessor: 128 registers a thread
constexpr std::int64_t most_strips = 65535;  // of a grid in y; further ones are done in turn

/// The part of x [rows, cols] that a lane's tile covers; `whole`: all of it, and aligned for load_eight().
struct Window {
  std::int64_t rows, cols, row, col;
  bool whole;
};

template <class X>
__device__ inline LaneTile load_tile(const X* x, const Window& w) {
  LaneTile tile;
  for (int j = 0; j < LaneTile::rows; ++j) {
    const std::int64_t row = w.row + 8 * j;
    if (w.whole) {
      const Eight e = load_eight(x + row * w.cols + w.col);
      for (int k = 0; k < LaneTile::cols; ++k) tile.values[j][k] = e.values[k];
    } else {
      for (int k = 0; k < LaneTile::cols; ++k)
        tile.values[j][k] = row < w.rows && w.col + k < w.cols ? value_at(x, row * w.cols + w.col + k) : 0.0f;
    }
  }
  return tile;
}

__device__ inline void store_row(bf16* y, const Window& w, std::int64_t row, const Eight& values) {
  if (w.whole) return store_eight(y + row * w.cols + w.col, values);
  for (int k = 0; k < LaneTile::cols; ++k)
    if (row < w.rows && w.col + k < w.cols) store_at(y, row * w.cols + w.col + k, values.values[k]);
}

__device__ inline void store_sums(float* sums, const Window& w, std::int64_t first_col, const LaneTile& x) {
  float of_lane[LaneTile::cols];
  for (int k = 0; k < LaneTile::cols; ++k)
    of_lane[k] = (x.values[0][k] + x.values[1][k]) + (x.values[2][k] + x.values[3][k]);
  const float sum = combine_columns(of_lane, [](float a, float b) { return a + b; });
  const std::int64_t col = first_col + lane_id() % 4 * 8 + lane_id() / 4;
  if (col < w.cols) sums[col] = sum;
}

// A warp has a tile of 32 x 32 in registers: it reads x once, shares magnitudes and scales of blocks through
// shared memory, and writes both copies. Warps of a block lie side by side, so rows are read and written in
// runs of 512 bytes (bf16) or more.
template <class X, bool row_blocks, bool column_blocks, TileRounding rounding>
__global__ __launch_bounds__(most_warps* warp_lanes, blocks_at_once) void tile_kernel(TileTask task,
                                                                                      bool aligned,
                                                                                      bool aligned_draws) {
  __shared__ TileBlocks of_rows[most_warps];
  __shared__ TileBlocks of_columns[most_warps];
  TileBlocks &in_rows = of_rows[warp_id()], &in_columns = of_columns[warp_id()];
  const int g = lane_id() / 4, t = lane_id() % 4;
  const std::int64_t first_col =
      (std::int64_t(blockIdx.x) * (blockDim.x / warp_lanes) + warp_id()) * tile_side;
  if (first_col >= task.cols) return;  // the whole warp leaves together; warps do not wait for each other
  const bool stochastic =
      rounding == TileRounding::stochastic || (rounding == TileRounding::any && task.draw_bits != 0);
  const DrawKey key = stochastic ? now(task.draws) : DrawKey{};
  const std::uint32_t top = stochastic ? ~0u << (32 - task.draw_bits) : 0;  // of each draw

  for (std::int64_t first_row = std::int64_t(blockIdx.y) * tile_side; first_row < task.rows;
       first_row += std::int64_t(gridDim.y) * tile_side) {
    const Window w{task.rows, task.cols, first_row + g, first_col + 8 * t,
                   aligned && first_row + tile_side <= task.rows && first_col + tile_side <= task.cols};
    const LaneTile x = load_tile(static_cast<const X*>(task.x), w);
    if (task.strip_sums) store_sums(task.strip_sums + first_row / tile_side * task.cols, w, first_col, x);
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
        const std::int64_t row = w.row + 8 * j;
        EightDraws draws{};
        if (stochastic)
          draws = draw_eight(key, key.first_element + std::uint64_t(row * w.cols + w.col), aligned_draws);
        [[maybe_unused]] Eight values;
        if constexpr (row_blocks) {
          const float row_inverse = in_rows.inverse[t / 2][g + 8 * j],
                      row_scale = in_rows.scale[t / 2][g + 8 * j];
          for (int k = 0; k < LaneTile::cols; ++k)
            values.values[k] = rounded_value<rounding>(task.row_blocks, x.values[j][k], row_inverse,
                                                       row_scale, draws.of(k, top));
          store_row(task.row_blocks.values, w, row, values);
        }
        if constexpr (column_blocks) {
          for (int k = 0; k < LaneTile::cols; ++k)
            values.values[k] = rounded_value<rounding>(task.column_blocks, x.values[j][k], inverse.values[k],
                                                       scale.values[k], draws.of(k, top));
          store_row(task.column_blocks.values, w, row, values);
        }
      }
    }
    warp_sync();  // the next tile's magnitudes take the place of what others still read
  }
}

template <class X, bool row_blocks, bool column_blocks, TileRounding rounding>
void launch_tiles(cudaStream_t stream, const TileTask& task) {
  const std::int64_t tiles = (task.cols + tile_side - 1) / tile_side;
  const std::int64_t strips = (task.rows + tile_side - 1) / tile_side;
  const unsigned warps = tiles < most_warps ? unsigned(tiles) : most_warps;
  const auto on_16_bytes = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  const bool whole_groups = task.cols % LaneTile::cols == 0;
  const bool aligned = whole_groups && on_16_bytes(task.x) && on_16_bytes(task.row_blocks.values) &&
                       on_16_bytes(task.column_blocks.values);
  const bool aligned_draws = whole_groups && task.draws.key.first_element % LaneTile::cols == 0;
  launch(
      "quantize_tiles", stream,
      {{blocks_for(tiles, warps), unsigned(strips < most_strips ? strips : most_strips)}, warps * warp_lanes},
      tile_kernel<X, row_blocks, column_blocks, rounding>, task, aligned, aligned_draws);
}

template <class X, TileRounding rounding>
void launch_copies(cudaStream_t stream, const TileTask& task) {
  const bool in_rows = task.row_blocks.values, in_columns = task.column_blocks.values;
  if (in_rows && in_columns) return launch_tiles<X, true, true, rounding>(stream, task);
  if (in_rows) return launch_tiles<X, true, false, rounding>(stream, task);
  if (in_columns) return launch_tiles<X, false, true, rounding>(stream, task);
  launch_tiles<X, false, false, TileRounding::even>(stream, task);
}

bool is_tile_length(std::int32_t n) { return n == tile_side / 2 || n == tile_side; }

/// The block's factor encode / scale is finite whatever the tensor: nothing but NaN and infinities of x makes
/// NaN of an element.
bool has_finite_inverse(const Quantizer& q) {
  if (q.scale == ScaleKind::power_of_two) return true;
  const BlockRule rule = block_rule(q);
  return tensor_encode_scale(rule, 0) / q.scale_format.min_positive() <= 0x1.fffffep127f;
}

}  // namespace

bool fits_tiles(const Quantizer& q) {
  const bool scaled =
      q.scale == ScaleKind::power_of_two || (q.scale == ScaleKind::floating && !q.four_over_six);
  const bool shaped =
      is_tile_length(q.block.along) && (q.block.across == 1 || is_tile_length(q.block.across));
  return scaled && shaped && !q.asymmetric && q.operand_dtype() == DType::bf16 && has_finite_inverse(q) &&
         !(q.is_stochastic() && block_rule(q).sr_exact);
}

TileCopy tile_copy(const Quantizer& q, bf16* values, const float* encode) {
  const BlockRule rule = block_rule(q);
  return {values,        encode,        rule, has_fast_grid(rule) ? fast_grid(rule) : FastGrid{},
          q.block.along, q.block.across};
}

TileRounding tile_rounding(const Quantizer& q) {
  if (!has_fast_grid(block_rule(q))) return TileRounding::any;
  return q.is_stochastic() ? TileRounding::stochastic : TileRounding::even;
}

void quantize_tiles(cudaStream_t stream, const TileTask& task) {
  with_type(task.dtype, [&]<class X>(X*) {
    switch (task.rounding) {
      case TileRounding::even:
        return launch_copies<X, TileRounding::even>(stream, task);
      case TileRounding::stochastic:
        return launch_copies<X, TileRounding::stochastic>(stream, task);
      case TileRounding::any:
        return launch_copies<X, TileRounding::any>(stream, task);
    }
  });
}

}  // namespace mxtape::cuda
