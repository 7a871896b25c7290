#pragma once
#include "kernels/cuda/device.cuh"

namespace mxtape::cuda {

/// The sums of n numbers over the block, the same in all threads, in a fixed order. `turn` is the block's
/// count of such calls, 0 at first: neighbours use different memory, so that each has one barrier. What a
/// thread did to memory before comes before what any of the block does after, in a block of one warp too.
template <int n>
__device__ inline void block_sums(float (&x)[n], int& turn) {
  __shared__ float of_warp[2][n][warp_lanes];
#pragma unroll
  for (float& v : x) v = warp_sum(v);
  const int warps = int(blockDim.x) / warp_lanes;
  if (warps == 1) return warp_sync();
  auto& partial = of_warp[turn++ % 2];
  if (lane_id() == 0)
#pragma unroll
    for (int i = 0; i < n; ++i) partial[i][warp_id()] = x[i];
  block_sync();
#pragma unroll
  for (int i = 0; i < n; ++i) x[i] = warp_sum(lane_id() < warps ? partial[i][lane_id()] : 0.0f);
}
__device__ inline float block_sum(float x, int& turn) {
  float sums[] = {x};
  block_sums(sums, turn);
  return sums[0];
}

/// The largest number of the block; which, if one is NaN, is not said.
__device__ inline float block_max(float x, int& turn) {
  __shared__ float of_warp[2][warp_lanes];
  x = warp_max(x);
  const int warps = int(blockDim.x) / warp_lanes;
  if (warps == 1) return x;
  auto& partial = of_warp[turn++ % 2];
  if (lane_id() == 0) partial[warp_id()] = x;
  block_sync();
  return warp_max(partial[lane_id() < warps ? lane_id() : 0]);
}

/// `combine` over the warp, or over a block of `threads`, the same in all of them. Of a block some numbers
/// are combined twice: for maxima and minima.
template <class T, class Combine>
__device__ inline T warp_fold(T mine, const Combine& combine) {
  for (int mask = warp_lanes / 2; mask > 0; mask /= 2) mine = combine(mine, warp_xor(mine, mask));
  return mine;
}
template <int threads, class T, class Combine>
__device__ inline T block_fold(T mine, const Combine& combine) {
  __shared__ T of_warp[threads / warp_lanes];
  mine = warp_fold(mine, combine);
  if (lane_id() == 0) of_warp[warp_id()] = mine;
  block_sync();
  for (const T other : of_warp) mine = combine(mine, other);
  block_sync();  // before the next one writes there
  return mine;
}

/// The sum of a number of each of `threads` threads, a power of two, in double, by a fixed tree: in thread 0,
/// 0 in the others.
template <int threads>
__device__ inline double block_sum_double(double x) {
  __shared__ double part[threads];
  part[threadIdx.x] = x;
  for (int half = threads / 2; half > 0; half /= 2) {
    block_sync();
    if (int(threadIdx.x) < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? part[0] : 0.0;
}

}  // namespace mxtape::cuda
