#include "kernels/cuda/rows/collect_sums.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape::cuda {
namespace {

// A block adds the partial sums of 32 columns: each warp every 32nd, then one after the other.
constexpr int threads = 1024;
__global__ void __launch_bounds__(threads)
    collect_kernel(float* first, float* second, const float* partial, int blocks, int C, Write write) {
  __shared__ float of_warp[threads / warp_lanes][warp_lanes];
  const int column = int(blockIdx.x) * warp_lanes + lane_id();
  const float* const sums = partial + std::int64_t(blockIdx.y) * C + column;
  float sum = 0;
  if (column < C)
#pragma unroll 8
    for (int block = warp_id(); block < blocks; block += threads / warp_lanes)
      sum += sums[std::int64_t(block) * 2 * C];
  of_warp[warp_id()][lane_id()] = sum;
  block_sync();
  if (warp_id() != 0 || column >= C) return;
  float& total = (blockIdx.y == 0 ? first : second)[column];
  float all = write == Write::accumulate ? total : 0.0f;
  for (const auto& warp : of_warp) all += warp[lane_id()];
  total = all;
}

}  // namespace

void collect_sums(cudaStream_t stream, const Tensor& first, const Tensor& second, const Tensor& partial,
                  Write write) {
  const std::int64_t C = partial.cols();
  launch("collect_sums", stream, {dim3(blocks_for(C, warp_lanes), second ? 2 : 1), threads}, collect_kernel,
         first.data(), second.data(), partial.data(), partial.shape()[0], C, write);
}

}  // namespace mxtape::cuda
