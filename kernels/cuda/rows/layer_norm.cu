#include <algorithm>

#include "kernels/calls_rows.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows/collect_sums.h"
#include "kernels/cuda/rows/row_parts.cuh"

namespace mxtape {
namespace cuda {
namespace {

// Layer norms, and RMSNorms, whose x is not `centred`: they have no mean, and no bias.
//
// A block owns a few rows, one after the other, and keeps one in registers: a thread holds eight columns of
// it, or 32 of rows too wide for that, which then spill. A thread's columns are the same in all rows, so gain
// and bias are read once and the sums of their gradients need no other thread.
constexpr int narrow_threads = 512, wide_threads = 1024, wide_rounds = 4;
constexpr std::int64_t narrow = 8 * narrow_threads, widest = 8 * wide_rounds * wide_threads;
constexpr int threads_for_rounds(int rounds) { return rounds == 1 ? narrow_threads : wide_threads; }

constexpr std::int64_t forward_rows = 4;  // of a block

// Blocks of the backward pass: what an H200's multiprocessors run at once, each 1024 threads in whole blocks.
// One more would be alone with all its rows while the others are done. The blocks' sums depend on their
// number, so it depends on the shape and not on the machine. Packed rows keep to the registers for this.
constexpr std::int64_t multiprocessors = 132, threads_at_once = 1024;
constexpr std::int64_t least_rows = 8;  // of a block: they pay for its partial sums

template <bool packed, int rounds>
struct NormRow {
  Eight part[rounds];

  NormRow() = default;
  template <class T>
  __device__ NormRow(const RowParts<packed>& parts, const T* row) {
#pragma unroll
    for (int round = 0; round < rounds; ++round) part[round] = parts.load(row, round);
  }
};

template <bool centred, class T, bool packed, int rounds>
__global__ void __launch_bounds__(threads_for_rounds(rounds))
    norm_kernel(T* y, float* mean, float* rstd, const T* x, const float* gain, const float* bias,
                std::int64_t rows, int C, float eps) {
  const RowParts<packed> parts{C, int(blockDim.x), int(threadIdx.x)};
  const NormRow<packed, rounds> gains(parts, gain);
  NormRow<packed, rounds> biases{};
  if (centred && bias) biases = {parts, bias};
  int turn = 0;
  std::int64_t row = std::int64_t(blockIdx.x) * forward_rows;
  const std::int64_t end = row + forward_rows < rows ? row + forward_rows : rows;
  for (; row < end; ++row) {
    NormRow<packed, rounds> values(parts, x + row * C);
    float m = 0;
    if constexpr (centred) {
#pragma unroll
      for (const Eight& e : values.part) m += sum_of(e);
      m = block_sum(m, turn) / float(C);
    }
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
    if (threadIdx.x == 0) rstd[row] = s;
    if (centred && threadIdx.x == 0) mean[row] = m;
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

// With g = gain dy, n the normalised x and <> the mean over C:  dx = others + rstd (g - <g> - n <g n>),
// others being 0 if null; an RMSNorm's has no <g>. Each block leaves its rows' sums of dgain and dbias in
// partial [blocks, 2, C].
template <bool centred, class T, bool packed, int rounds>
__global__ void __launch_bounds__(threads_for_rounds(rounds), packed&& rounds == 1 ? 2 : 1)
    norm_backward_kernel(T* dx, float* partial, const T* dy, const T* x, const float* mean, const float* rstd,
                         const float* gain, const T* others, std::int64_t rows, std::int64_t rows_of_block,
                         int C) {
  const RowParts<packed> parts{C, int(blockDim.x), int(threadIdx.x)};
  const NormRow<packed, rounds> gains(parts, gain);
  NormRow<packed, rounds> dgain{}, dbias{};
  using Bits = decltype(parts.load_bits(dy, 0));
  int turn = 0;
  std::int64_t row = std::int64_t(blockIdx.x) * rows_of_block;
  const std::int64_t end = row + rows_of_block < rows ? row + rows_of_block : rows;
  for (; row < end; ++row) {
    // All of a row is asked for at once, and kept as it is in memory until it is needed.
    Bits gradients[rounds], inputs[rounds], around{};
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      gradients[round] = parts.load_bits(dy + row * C, round);
      inputs[round] = parts.load_bits(x + row * C, round);
    }
    if (rounds == 1 && others) around = parts.load_bits(others + row * C, 0);
    const float m = centred ? mean[row] : 0.0f, s = rstd[row];
    float means[centred ? 2 : 1] = {};  // <g n>, <g>
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      const Eight d_row = widened(gradients[round]), x_row = widened(inputs[round]);
      Eight g, gn;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float d = d_row.values[k];  // 0 outside of the row
        const float n = (x_row.values[k] - m) * s;
        g.values[k] = gains.part[round].values[k] * d;
        gn.values[k] = g.values[k] * n;
        dgain.part[round].values[k] = fmaf(d, n, dgain.part[round].values[k]);
        if (centred) dbias.part[round].values[k] += d;
      }
      means[0] += sum_of(gn);
      if constexpr (centred) means[1] += sum_of(g);
    }
    block_sums(means, turn);
    for (float& v : means) v /= float(C);
    float g_mean = 0;
    if constexpr (centred) g_mean = means[1];
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      const Eight d_row = widened(gradients[round]), x_row = widened(inputs[round]);
      if (rounds > 1 && others)
        around = parts.load_bits(others + row * C, round);  // wide rows lack registers
      Eight out = widened(around);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float n = (x_row.values[k] - m) * s;
        out.values[k] += (gains.part[round].values[k] * d_row.values[k] - g_mean - n * means[0]) * s;
      }
      parts.store(dx + row * C, round, out);
    }
  }
  float* const own = partial + std::int64_t(blockIdx.x) * 2 * C;
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    parts.store(own, round, dgain.part[round]);
    if (centred) parts.store(own + C, round, dbias.part[round]);
  }
}

/// Calls f(T*, packed, rounds) with the types of the kernels for call.x.
void with_kernel_types(const auto& call, const auto& f) {
  const std::int64_t C = call.x.cols();
  require(C <= widest, "cuda: {}: rows of {}; at most {} fit into a block's registers", call.name, C, widest);
  with_type(call.x.dtype(), [&]<class T>(T* type) {
    with_packed(C, [&](auto packed) {
      if (C <= narrow)
        f(type, packed, std::integral_constant<int, 1>{});
      else
        f(type, packed, std::integral_constant<int, wide_rounds>{});
    });
  });
}

unsigned threads_for(std::int64_t C) {
  return C <= narrow ? warp_lanes * unsigned((C + 8 * warp_lanes - 1) / (8 * warp_lanes)) : wide_threads;
}

template <bool centred>
void norm(cudaStream_t stream, const call::Norm& call) {
  const std::int64_t C = call.x.cols(), rows = call.x.rows();
  with_kernel_types(call, [&]<class T>(T*, auto packed, auto rounds) {
    launch(call.name.data(), stream, {blocks_for(rows, forward_rows), threads_for(C)},
           norm_kernel<centred, T, decltype(packed)::value, decltype(rounds)::value>, call.y.data<T>(),
           call.mean.data(), call.rstd.data(), call.x.data<T>(), call.gain.data(), call.bias.data(), rows, C,
           call.eps);
  });
}

template <bool centred>
void norm_backward(Backend& backend, cudaStream_t stream, const call::NormBackward& call) {
  const std::int64_t C = call.x.cols(), rows = call.x.rows();
  const std::int64_t at_once = multiprocessors * (threads_at_once / threads_for(C));
  const std::int64_t rows_of_block = std::max(least_rows, (rows + at_once - 1) / at_once);
  const unsigned blocks = blocks_for(rows, rows_of_block);
  const Tensor partial = backend.empty({blocks, 2, C});
  with_kernel_types(call, [&]<class T>(T*, auto packed, auto rounds) {
    launch(call.name.data(), stream, {blocks, threads_for(C)},
           norm_backward_kernel<centred, T, decltype(packed)::value, decltype(rounds)::value>,
           call.dx.data<T>(), partial.data(), call.dy.data<T>(), call.x.data<T>(), call.mean.data(),
           call.rstd.data(), call.gain.data(), call.others.data<T>(), rows, rows_of_block, C);
  });
  collect_sums(stream, call.dgain, call.dbias, partial, call.write);
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Norm& call) {
  call::check_norm(call.mean, call.bias);
  call.mean ? cuda::norm<true>(stream_.get(), call) : cuda::norm<false>(stream_.get(), call);
}
void CudaBackend::compute(const call::NormBackward& call) {
  call::check_norm(call.mean, call.dbias);
  call.mean ? cuda::norm_backward<true>(*this, stream_.get(), call)
            : cuda::norm_backward<false>(*this, stream_.get(), call);
}

}  // namespace mxtape
