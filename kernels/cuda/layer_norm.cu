#include <algorithm>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_parts.cuh"

namespace mxtape {
namespace cuda {
namespace {

// A block owns a few rows, one after the other, and keeps one in registers: a thread holds eight columns of
// it, or 32 of rows too wide for that. A thread's columns are the same in all rows, so gain and bias are read
// once and the sums of their gradients need no other thread. The next row is on its way while one is reduced.
constexpr int most_threads = 1024;
constexpr int wide_rounds = 4;
constexpr std::int64_t narrow = 8 * most_threads, widest = wide_rounds * narrow;

constexpr std::int64_t forward_rows = 16;  // of a block: enough to pay for reading gain and bias

// Blocks of the backward pass: what an H200 runs at once of rows of 768, and few enough partial sums to stay
// in its cache. The sums depend on it, so it depends on the shape only.
constexpr std::int64_t most_partials = 1536;
constexpr std::int64_t least_rows = 8;

template <bool packed, int rounds>
struct NormRow {
  Eight part[rounds];

  template <class T>
  __device__ void load(const RowParts<packed>& parts, const T* row, bool wanted = true) {
    if (!wanted) return;
#pragma unroll
    for (int round = 0; round < rounds; ++round) part[round] = parts.load(row, round);
  }
};

template <class T, bool packed, int rounds>
__global__ void __launch_bounds__(most_threads)
    layer_norm_kernel(T* y, float* mean, float* rstd, const T* x, const float* gain, const float* bias,
                      std::int64_t rows, int C, float eps) {
  const RowParts<packed> parts{C, int(blockDim.x), int(threadIdx.x)};
  NormRow<packed, rounds> gains, biases{}, next;
  gains.load(parts, gain);
  biases.load(parts, bias, bias != nullptr);
  int turn = 0;
  std::int64_t row = std::int64_t(blockIdx.x) * forward_rows;
  const std::int64_t end = row + forward_rows < rows ? row + forward_rows : rows;
  next.load(parts, x + row * C, row < end);
  for (; row < end; ++row) {
    NormRow<packed, rounds> values = next;
    next.load(parts, x + (row + 1) * C, row + 1 < end);
    float sum = 0;
#pragma unroll
    for (const Eight& e : values.part) sum += sum_of(e);
    const float m = block_sum(sum, turn) / float(C);
    // From the deviations, not from the mean of squares, which cancels when the mean is large.
    float squares = 0;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      Eight square;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        float& v = values.part[round].values[k];
        v = parts.inside(round, k) ? v - m : 0.0f;
        square.values[k] = v * v;
      }
      squares += sum_of(square);
    }
    const float s = 1 / sqrtf(block_sum(squares, turn) / float(C) + eps);
    if (threadIdx.x == 0) mean[row] = m, rstd[row] = s;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      Eight out;
#pragma unroll
      for (int k = 0; k < 8; ++k)
        out.values[k] =
            fmaf(gains.part[round].values[k], values.part[round].values[k] * s, biases.part[round].values[k]);
      parts.store(y + row * C, round, out);
    }
  }
}

// With g = gain dy, n the normalised x and <> the mean over C:  dx = rstd (g - <g> - n <g n>). Each block
// leaves its rows' sums of dgain and dbias in partial [blocks, 2, C].
template <class T, bool packed, int rounds>
__global__ void __launch_bounds__(most_threads)
    layer_norm_backward_kernel(T* dx, float* partial, const T* dy, const T* x, const float* mean,
                               const float* rstd, const float* gain, std::int64_t rows,
                               std::int64_t rows_of_block, int C) {
  const RowParts<packed> parts{C, int(blockDim.x), int(threadIdx.x)};
  NormRow<packed, rounds> gains, next_dy, next_x, dgain{}, dbias{};
  gains.load(parts, gain);
  int turn = 0;
  std::int64_t row = std::int64_t(blockIdx.x) * rows_of_block;
  const std::int64_t end = row + rows_of_block < rows ? row + rows_of_block : rows;
  next_dy.load(parts, dy + row * C, row < end);
  next_x.load(parts, x + row * C, row < end);
  for (; row < end; ++row) {
    const NormRow<packed, rounds> gradients = next_dy;
    NormRow<packed, rounds> normalised = next_x;
    next_dy.load(parts, dy + (row + 1) * C, row + 1 < end);
    next_x.load(parts, x + (row + 1) * C, row + 1 < end);
    const float m = mean[row], s = rstd[row];
    float means[2] = {};  // <g>, <g n>
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      Eight g, gn;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float d = gradients.part[round].values[k];  // 0 outside of the row
        float& n = normalised.part[round].values[k];
        n = (n - m) * s;
        g.values[k] = gains.part[round].values[k] * d;
        gn.values[k] = g.values[k] * n;
        dgain.part[round].values[k] = fmaf(d, n, dgain.part[round].values[k]);
        dbias.part[round].values[k] += d;
      }
      means[0] += sum_of(g);
      means[1] += sum_of(gn);
    }
    block_sums(means, turn);
    for (float& v : means) v /= float(C);
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      Eight out;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float g = gains.part[round].values[k] * gradients.part[round].values[k];
        out.values[k] = (g - means[0] - normalised.part[round].values[k] * means[1]) * s;
      }
      parts.store(dx + row * C, round, out);
    }
  }
  float* const own = partial + std::int64_t(blockIdx.x) * 2 * C;
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    parts.store(own, round, dgain.part[round]);
    parts.store(own + C, round, dbias.part[round]);
  }
}

// Adds the partial sums [blocks, 2, C] of 32 columns: each warp every 32nd, then one after the other.
__global__ void __launch_bounds__(most_threads)
    collect_kernel(float* dgain, float* dbias, const float* partial, int blocks, int C, Write write) {
  __shared__ float of_warp[most_threads / warp_lanes][warp_lanes];
  const int column = int(blockIdx.x) * warp_lanes + lane_id();
  const float* const sums = partial + std::int64_t(blockIdx.y) * C + column;
  float sum = 0;
  if (column < C)
#pragma unroll 8
    for (int block = warp_id(); block < blocks; block += most_threads / warp_lanes)
      sum += sums[std::int64_t(block) * 2 * C];
  of_warp[warp_id()][lane_id()] = sum;
  block_sync();
  if (warp_id() != 0 || column >= C) return;
  float& total = (blockIdx.y == 0 ? dgain : dbias)[column];
  float all = write == Write::accumulate ? total : 0.0f;
  for (const auto& warp : of_warp) all += warp[lane_id()];
  total = all;
}

/// Calls f(T*, packed, rounds) with the types of the kernels for x.
template <class F>
void with_kernel_types(const Tensor& x, const F& f) {
  const std::int64_t C = x.cols();
  require(C <= widest, "cuda: layer_norm: rows of {}; at most {} fit into a block's registers", C, widest);
  with_type(x.dtype(), [&]<class T>(T* type) {
    with_packed(C, [&](auto packed) {
      if (C <= narrow)
        f(type, packed, std::integral_constant<int, 1>{});
      else
        f(type, packed, std::integral_constant<int, wide_rounds>{});
    });
  });
}

unsigned threads_for(std::int64_t C) {
  return warp_lanes * unsigned(std::min<std::int64_t>((C + 255) / 256, most_threads / warp_lanes));
}

}  // namespace
}  // namespace cuda

void CudaBackend::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                             const Tensor& gain, const Tensor& bias, float eps) {
  const std::int64_t C = x.cols(), rows = x.rows();
  cuda::with_kernel_types(x, [&]<class T>(T*, auto packed, auto rounds) {
    cuda::launch("layer_norm", stream_.get(),
                 {cuda::blocks_for(rows, cuda::forward_rows), cuda::threads_for(C)},
                 cuda::layer_norm_kernel<T, decltype(packed)::value, decltype(rounds)::value>, y.data<T>(),
                 mean.data(), rstd.data(), x.data<T>(), gain.data(), bias.data(), rows, C, eps);
  });
}

void CudaBackend::layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias,
                                      const Tensor& dy, const Tensor& x, const Tensor& mean,
                                      const Tensor& rstd, const Tensor& gain, Write gain_bias) {
  const std::int64_t C = x.cols(), rows = x.rows();
  const std::int64_t rows_of_block =
      std::max(cuda::least_rows, (rows + cuda::most_partials - 1) / cuda::most_partials);
  const unsigned blocks = cuda::blocks_for(rows, rows_of_block);
  const Tensor partial = empty({blocks, 2, C});
  cuda::with_kernel_types(x, [&]<class T>(T*, auto packed, auto rounds) {
    cuda::launch("layer_norm_backward", stream_.get(), {blocks, cuda::threads_for(C)},
                 cuda::layer_norm_backward_kernel<T, decltype(packed)::value, decltype(rounds)::value>,
                 dx.data<T>(), partial.data(), dy.data<T>(), x.data<T>(), mean.data(), rstd.data(),
                 gain.data(), rows, rows_of_block, C);
  });
  cuda::launch("layer_norm_collect", stream_.get(),
               {dim3(cuda::blocks_for(C, cuda::warp_lanes), dbias ? 2 : 1), cuda::most_threads},
               cuda::collect_kernel, dgain.data(), dbias.data(), partial.data(), blocks, C, gain_bias);
}

}  // namespace mxtape
