#include "kernels/cuda/quantize/quantize_tile.cuh"

namespace mxtape::cuda {
namespace {

template <class X>
__device__ inline LaneTile load_tile(const X* x, const LanePlace& place, bool by_eights) {
  LaneTile tile{};
  for (int j = 0; j < LaneTile::rows; ++j) {
    if (by_eights) {
      const Eight e = place.has_row(j) ? load_eight(x + place.of_row(j)) : Eight{};
      for (int k = 0; k < LaneTile::cols; ++k) tile.values[j][k] = e.values[k];
    } else if (place.has_row(j)) {
      for (int k = 0; k < LaneTile::cols; ++k)
        if (k < place.cols_inside) tile.values[j][k] = value_at(x, place.of_row(j) + k);
    }
  }
  return tile;
}

// A warp has a tile of 32 x 32 in registers: it reads x once, shares magnitudes and scales of blocks through
// shared memory, and writes both copies. Warps of a block lie side by side, so rows are read and written in
// runs of 512 bytes (bf16) or more.
template <class X, bool row_blocks, bool column_blocks, TileRounding rounding>
__global__ __launch_bounds__(most_warps* warp_lanes, blocks_of_tiles) void tile_kernel(TileTask task,
                                                                                       TileAccess how) {
  __shared__ TileBlocks of_rows[most_warps];
  __shared__ TileBlocks of_columns[most_warps];
  TileBlocks &in_rows = of_rows[warp_id()], &in_columns = of_columns[warp_id()];
  const std::int64_t first_col =
      (std::int64_t(blockIdx.x) * (blockDim.x / warp_lanes) + warp_id()) * tile_side;
  if (first_col >= task.cols) return;  // the whole warp leaves together; warps do not wait for each other
  const DrawKey key = is_stochastic<rounding>(task) ? now(task.draws) : DrawKey{};

  for (std::int64_t first_row = std::int64_t(blockIdx.y) * tile_side; first_row < task.rows;
       first_row += std::int64_t(gridDim.y) * tile_side) {
    const LanePlace place = place_of_lane(task, first_row, first_col);
    const LaneTile x = load_tile(static_cast<const X*>(task.x), place, how.by_eights);
    if (task.strip_sums) store_sums(task, first_row, first_col, x);
    quantize_tile<row_blocks, column_blocks, rounding>(task, key, place, x, in_rows, in_columns, how);
  }
}

template <class X, bool row_blocks, bool column_blocks, TileRounding rounding>
void launch_tiles(cudaStream_t stream, const TileTask& task) {
  launch("quantize_tiles", stream, tile_launch(task), tile_kernel<X, row_blocks, column_blocks, rounding>,
         task, tile_access(task));
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

}  // namespace

bool fits_tiles(const Quantizer& q) {
  const bool scaled = q.scale == ScaleKind::power_of_two || q.scale == ScaleKind::floating;
  const bool shaped =
      is_tile_length(q.block.along) && (q.block.across == 1 || is_tile_length(q.block.across));
  return scaled && shaped && q.scale_is_of_amax() && q.operand_dtype() == DType::bf16 &&
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

TileTask tile_task(const Tensor& x, const ClockedKey& draws) {
  TileTask task{};
  task.x = x.raw();
  task.dtype = x.dtype();
  task.rows = x.rows();
  task.cols = x.cols();
  task.draws = draws;
  task.round_keys = round_keys(draws.key.seed);
  return task;
}

bool share_a_pass(const Rounded& a, const Rounded& b) {
  const auto draw_bits = [](const Quantizer& q) { return q.is_stochastic() ? int(q.sr_bits) : 0; };
  return a.by.axis != b.by.axis && tile_rounding(a.by.quantizer) == tile_rounding(b.by.quantizer) &&
         draw_bits(a.by.quantizer) == draw_bits(b.by.quantizer);
}

void add_copy(TileTask& task, const Rounded& copy, const float* encode) {
  const Quantizer& q = copy.by.quantizer;
  TileCopy& place = copy.by.axis == Axis::row ? task.row_blocks : task.column_blocks;
  place = tile_copy(q, copy.elements.data<bf16>(), encode);
  task.rounding = tile_rounding(q);
  task.draw_bits = q.is_stochastic() ? q.sr_bits : 0;
}

void quantize_tiles(cudaStream_t stream, const TileTask& task) {
  if (fits_pairs(task)) return quantize_pairs(stream, task);
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
