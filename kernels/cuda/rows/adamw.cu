#include "kernels/calls_rows.h"
#include "kernels/check_quantize.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/quantize/quantize_tile.cuh"

namespace mxtape {
namespace cuda {
namespace {

struct AdamWTask {
  float *p, *m, *v;
  const float* g;
  std::int64_t count;
  const float *clip, *rates;
  AdamWStep step;
};

/// What all elements of a step share.
struct AdamWFactors {
  float clip, rate, root, decay;
};
__device__ inline AdamWFactors factors_of(const AdamWTask& t) {
  return {*t.clip, t.rates[0] / t.rates[1], 1 / sqrtf(t.rates[2]), t.rates[0] * t.step.weight_decay};
}

// p -= lr (m / c1) / (sqrt(v / c2) + eps) + lr decay p, in the operations of the CPU's loop, one by one.
__device__ inline void adamw_element(float& p, float& m, float& v, float g, const AdamWFactors& f,
                                     const AdamWStep& step) {
  g *= f.clip;
  m = m * step.beta1 + g * (1 - step.beta1);
  v = v * step.beta2 + g * g * (1 - step.beta2);
  p -= m * f.rate / (sqrtf(v) * f.root + step.eps) + p * f.decay;
}

constexpr int threads = 256;

// A thread steps four neighbours. `copy`, if not null, gets them as bf16.
__global__ void __launch_bounds__(threads) adamw_kernel(AdamWTask task, bf16* copy) {
  const std::int64_t i = 4 * (std::int64_t(blockIdx.x) * threads + threadIdx.x);
  const AdamWFactors f = factors_of(task);
  if (f.clip != f.clip || i >= task.count) return;
  if (i + 4 <= task.count) {
    float4 p = load_four(task.p + i), m = load_four(task.m + i), v = load_four(task.v + i);
    const float4 g = load_four(task.g + i);
    adamw_element(p.x, m.x, v.x, g.x, f, task.step);
    adamw_element(p.y, m.y, v.y, g.y, f, task.step);
    adamw_element(p.z, m.z, v.z, g.z, f, task.step);
    adamw_element(p.w, m.w, v.w, g.w, f, task.step);
    store_four(task.p + i, p);
    store_four(task.m + i, m);
    store_four(task.v + i, v);
    if (copy) *reinterpret_cast<uint2*>(copy + i) = make_uint2(bf16_pair(p.x, p.y), bf16_pair(p.z, p.w));
  } else {
    for (std::int64_t j = i; j < task.count; ++j) {
      adamw_element(task.p[j], task.m[j], task.v[j], task.g[j], f, task.step);
      if (copy) store_at(copy, j, task.p[j]);
    }
  }
}

/// Steps a lane's tile of p, m and v; the new p.
__device__ inline LaneTile stepped_tile(const AdamWTask& task, const AdamWFactors& f, const LanePlace& place,
                                        bool by_eights) {
  LaneTile tile{};
#pragma unroll
  for (int j = 0; j < LaneTile::rows; ++j) {
    if (!place.has_row(j)) continue;
    const std::int64_t i = place.of_row(j);
    if (by_eights) {
      Eight p = load_eight(task.p + i), m = load_eight(task.m + i), v = load_eight(task.v + i);
      const Eight g = load_eight(task.g + i);
      for (int k = 0; k < LaneTile::cols; ++k) {
        adamw_element(p.values[k], m.values[k], v.values[k], g.values[k], f, task.step);
        tile.values[j][k] = p.values[k];
      }
      store_eight(task.p + i, p);
      store_eight(task.m + i, m);
      store_eight(task.v + i, v);
    } else {
      for (int k = 0; k < LaneTile::cols; ++k)
        if (k < place.cols_inside) {
          adamw_element(task.p[i + k], task.m[i + k], task.v[i + k], task.g[i + k], f, task.step);
          tile.values[j][k] = task.p[i + k];
        }
    }
  }
  return tile;
}

// tile_kernel() whose tiles are stepped on the way. Per element 28 bytes move for AdamW and 2 for each copy;
// 4 more, to read p again, if the copies were made after it.
template <bool column_blocks, TileRounding rounding>
__global__ __launch_bounds__(most_warps* warp_lanes, blocks_of_tiles) void adamw_tile_kernel(AdamWTask task,
                                                                                             TileTask tile,
                                                                                             TileAccess how) {
  __shared__ TileBlocks of_rows[most_warps];
  __shared__ TileBlocks of_columns[most_warps];
  TileBlocks &in_rows = of_rows[warp_id()], &in_columns = of_columns[warp_id()];
  const std::int64_t first_col =
      (std::int64_t(blockIdx.x) * (blockDim.x / warp_lanes) + warp_id()) * tile_side;
  const AdamWFactors f = factors_of(task);
  if (f.clip != f.clip || first_col >= tile.cols) return;  // the whole warp; warps do not wait for each other
  const DrawKey key = is_stochastic<rounding>(tile) ? now(tile.draws) : DrawKey{};
  for (std::int64_t first_row = std::int64_t(blockIdx.y) * tile_side; first_row < tile.rows;
       first_row += std::int64_t(gridDim.y) * tile_side) {
    const LanePlace place = place_of_lane(tile, first_row, first_col);
    const LaneTile p = stepped_tile(task, f, place, how.by_eights);
    quantize_tile<true, column_blocks, rounding>(tile, key, place, p, in_rows, in_columns, how);
  }
}

/// True if one pass over tiles makes all copies: of rows' blocks, and of columns' if there are two.
bool fits_one_pass(std::span<const Rounded> copies) {
  const auto fits = [](const Rounded& copy) {
    return copy.layout == Layout::values && copy.by.rotation.size == 0 &&
           copy.by.quantizer.scale == ScaleKind::power_of_two && fits_tiles(copy.by.quantizer) &&
           tile_rounding(copy.by.quantizer) != TileRounding::any;
  };
  if (copies.size() == 1) return copies[0].by.axis == Axis::row && fits(copies[0]);
  return copies.size() == 2 && fits(copies[0]) && fits(copies[1]) && share_a_pass(copies[0], copies[1]);
}

bool is_plain_bf16(std::span<const Rounded> copies) {
  return copies.size() == 1 && copies[0].layout == Layout::values && copies[0].by.rotation.size == 0 &&
         copies[0].by.quantizer == bf16_cast;
}

template <TileRounding rounding>
void launch_tiles(cudaStream_t stream, const AdamWTask& task, const TileTask& tile) {
  TileAccess how = tile_access(tile);
  for (const void* other :
       {static_cast<const void*>(task.m), static_cast<const void*>(task.v), static_cast<const void*>(task.g)})
    how.by_eights &= on_16_bytes(other);
  const auto kernel =
      tile.column_blocks.values ? adamw_tile_kernel<true, rounding> : adamw_tile_kernel<false, rounding>;
  launch("adamw, copies", stream, tile_launch(tile), kernel, task, tile, how);
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::AdamW& call) {
  check_quantize(call.copies, call.parameter);
  refuse_codes("cuda: adamw", call.copies);
  const cuda::AdamWTask task{
      call.parameter.data(),  call.m.data(),      call.v.data(),     call.gradient.data(),
      call.parameter.count(), call.factor.data(), call.rates.data(), call.step};
  if (task.count > 0 && cuda::fits_one_pass(call.copies)) {
    cuda::TileTask tile = cuda::tile_task(call.parameter, clocked(call.copies.front().by.draws));
    for (const Rounded& copy : call.copies) {
      cuda::add_copy(tile, copy, nullptr);
      if (copy.multiplier) fill(copy.multiplier, 1 / copy.by.quantizer.alpha);
    }
    if (tile.rounding == cuda::TileRounding::stochastic)
      return cuda::launch_tiles<cuda::TileRounding::stochastic>(stream_.get(), task, tile);
    return cuda::launch_tiles<cuda::TileRounding::even>(stream_.get(), task, tile);
  }
  const bool plain = cuda::is_plain_bf16(call.copies);
  cuda::launch("adamw", stream_.get(), {cuda::blocks_for(task.count, 4 * cuda::threads), cuda::threads},
               cuda::adamw_kernel, task, plain ? call.copies[0].elements.data<bf16>() : nullptr);
  if (!plain && !call.copies.empty()) compute(call::Quantize{call.copies, call.parameter});
}

}  // namespace mxtape
