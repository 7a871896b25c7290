#include <algorithm>

#include "kernels/calls_rows.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows/collect_sums.h"
#include "kernels/cuda/rows/row_parts.cuh"

namespace mxtape {
namespace cuda {
namespace {

// Rows hold H heads of queries, G of keys, G of values, each [D] = two halves whose elements i are a pair.
struct Heads {
  int H, G, D;
  std::int64_t time, first_position;
  const float *cos, *sin;  // [positions, D / 2]

  __host__ __device__ int turned() const { return H + G; }
  __host__ __device__ int all() const { return H + 2 * G; }
  __device__ std::int64_t place(std::int64_t row, int head) const { return (row * all() + head) * D; }
  __device__ std::int64_t angles(std::int64_t row) const { return (first_position + row % time) * (D / 2); }
};

Heads heads_of(const auto& call, const Tensor& x) {
  const auto all = call.heads + 2 * call.kv_heads;
  return {int(call.heads),     int(call.kv_heads), int(x.cols() / all), x.shape()[1],
          call.first_position, call.cos.data(),    call.sin.data()};
}

struct Pairs {
  Eight first, second;
};
__device__ void turn(Pairs& p, const Eight& cos, const Eight& sin, float sign) {
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float a = p.first.values[k], b = p.second.values[k], s = sign * sin.values[k];
    p.first.values[k] = a * cos.values[k] - b * s;
    p.second.values[k] = b * cos.values[k] + a * s;
  }
}

// A thread turns eight pairs, by the negative angles if sign is -1, or moves eight pairs of values. `pieces`
// blocks share a row, `workers` threads a head, `heads` of which are visited.
constexpr unsigned most_threads = 256;
template <class T, bool packed>
__global__ void turn_kernel(T* y, const T* x, Heads h, unsigned pieces, int workers, int heads, float sign) {
  const std::int64_t row = blockIdx.x / pieces;
  const int worker = int(blockIdx.x % pieces * blockDim.x + threadIdx.x), head = worker / workers;
  if (head >= heads) return;
  const int half = h.D / 2;
  const RowParts<packed> parts{half, workers, worker % workers};
  const std::int64_t place = h.place(row, head), angles = h.angles(row);
  Pairs p{parts.load(x + place, 0), parts.load(x + place + half, 0)};
  if (head < h.turned()) turn(p, parts.load(h.cos + angles, 0), parts.load(h.sin + angles, 0), sign);
  parts.store(y + place, 0, p.first);
  parts.store(y + place + half, 0, p.second);
}

// With norms a warp holds a head: a lane every 32nd of at most 256 pairs.
constexpr int norm_warps = 8, norm_threads = norm_warps * warp_lanes, widest = 512;
using Lane = RowParts<false>;
__device__ Lane lane_of(const Heads& h) { return {h.D / 2, warp_lanes, lane_id()}; }

template <class T>
__device__ Pairs load_pairs(const Lane& lane, const T* head, int half) {
  return {lane.load(head, 0), lane.load(head + half, 0)};
}
template <class T>
__device__ void store_pairs(const Lane& lane, T* head, int half, const Pairs& p) {
  lane.store(head, 0, p.first);
  lane.store(head + half, 0, p.second);
}
/// The sum over a head of f(pairs of a, pairs of b) element by element.
__device__ float dot(const Pairs& a, const Pairs& b) {
  Eight first, second;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    first.values[k] = a.first.values[k] * b.first.values[k];
    second.values[k] = a.second.values[k] * b.second.values[k];
  }
  return warp_sum(sum_of(first) + sum_of(second));
}
__device__ Pairs times(const Pairs& a, const Pairs& b) {
  Pairs p;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    p.first.values[k] = a.first.values[k] * b.first.values[k];
    p.second.values[k] = a.second.values[k] * b.second.values[k];
  }
  return p;
}
__device__ Pairs times(const Pairs& a, float s) {
  Pairs p;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    p.first.values[k] = a.first.values[k] * s, p.second.values[k] = a.second.values[k] * s;
  return p;
}
/// a += b s.
__device__ void add(Pairs& a, const Pairs& b, float s) {
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    a.first.values[k] += b.first.values[k] * s;
    a.second.values[k] += b.second.values[k] * s;
  }
}

template <class T>
__global__ void __launch_bounds__(norm_threads)
    norm_turn_kernel(T* y, float* rstd, const T* x, const float* q_gain, const float* k_gain, Heads h,
                     std::int64_t rows, float eps) {
  const std::int64_t item = std::int64_t(blockIdx.x) * norm_warps + warp_id();
  const std::int64_t row = item / h.all();
  const int head = int(item % h.all()), half = h.D / 2;
  if (row >= rows) return;  // the whole warp leaves together
  const Lane lane = lane_of(h);
  const std::int64_t place = h.place(row, head);
  Pairs p = load_pairs(lane, x + place, half);
  if (head < h.turned()) {
    const float s = 1 / sqrtf(dot(p, p) / float(h.D) + eps);
    if (lane_id() == 0) rstd[row * h.turned() + head] = s;
    p = times(load_pairs(lane, head < h.H ? q_gain : k_gain, half), times(p, s));
    const std::int64_t angles = h.angles(row);
    turn(p, lane.load(h.cos + angles, 0), lane.load(h.sin + angles, 0), 1);
  }
  store_pairs(lane, y + place, half, p);
}

// With g = gain times dy turned back, n the normalised x and <> the mean over D:  dx = rstd (g - n <g n>). A
// block's warps take the heads of its rows in turn; their sums of the gains' gradients [2, D] are added in
// the order of the warps.
template <class T>
__global__ void __launch_bounds__(norm_threads)
    norm_turn_backward_kernel(T* dx, float* partial, const T* dy, const T* x, const float* rstd,
                              const float* q_gain, const float* k_gain, Heads h, std::int64_t rows,
                              std::int64_t rows_of_block) {
  __shared__ float of_warp[norm_warps][2][widest];
  const Lane lane = lane_of(h);
  const int half = h.D / 2;
  Pairs dq{}, dk{};
  const std::int64_t begin = std::int64_t(blockIdx.x) * rows_of_block;
  const std::int64_t end = begin + rows_of_block < rows ? begin + rows_of_block : rows;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t angles = h.angles(row);
    for (int head = warp_id(); head < h.all(); head += norm_warps) {
      const std::int64_t place = h.place(row, head);
      Pairs g = load_pairs(lane, dy + place, half);
      if (head < h.turned()) {
        turn(g, lane.load(h.cos + angles, 0), lane.load(h.sin + angles, 0), -1);
        const float s = rstd[row * h.turned() + head];
        const Pairs n = times(load_pairs(lane, x + place, half), s), dgain = times(g, n);
        if (head < h.H)  // registers have no address
          add(dq, dgain, 1);
        else
          add(dk, dgain, 1);
        g = times(load_pairs(lane, head < h.H ? q_gain : k_gain, half), g);
        add(g, n, -(dot(g, n) / float(h.D)));
        g = times(g, s);
      }
      store_pairs(lane, dx + place, half, g);
    }
  }
  store_pairs(lane, of_warp[warp_id()][0], half, dq);
  store_pairs(lane, of_warp[warp_id()][1], half, dk);
  block_sync();
  for (int i = int(threadIdx.x); i < 2 * h.D; i += norm_threads) {
    float sum = 0;
    for (const auto& warp : of_warp) sum += warp[i / h.D][i % h.D];
    partial[std::int64_t(blockIdx.x) * 2 * h.D + i] = sum;
  }
}

void launch_turn(const char* name, cudaStream_t stream, const Tensor& y, const Tensor& x, const Heads& h,
                 float sign) {
  const int heads = y.raw() == x.raw() ? h.turned() : h.all(), half = h.D / 2;
  const unsigned workers = blocks_for(half, 8), of_row = workers * unsigned(heads);
  const unsigned threads = std::min(most_threads, (of_row + warp_lanes - 1) / warp_lanes * warp_lanes);
  const unsigned pieces = blocks_for(of_row, threads);
  with_type(y.dtype(), [&]<class T>(T*) {
    with_packed(half, [&](auto packed) {
      launch(name, stream, {blocks_for(x.rows() * pieces, 1), threads},
             turn_kernel<T, decltype(packed)::value>, y.data<T>(), x.data<T>(), h, pieces, workers, heads,
             sign);
    });
  });
}

void require_narrow(const char* name, const Heads& h) {
  require(h.D <= widest, "cuda: {}: heads of {} with norms; at most {} fit into a warp's registers", name,
          h.D, widest);
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Rotary& call) {
  const cuda::Heads h = cuda::heads_of(call, call.x);
  if (!call.rstd) return cuda::launch_turn("rotary", stream_.get(), call.y, call.x, h, 1);
  cuda::require_narrow("rotary", h);
  const std::int64_t rows = call.x.rows();
  cuda::with_type(call.x.dtype(), [&]<class T>(T*) {
    cuda::launch("rotary", stream_.get(),
                 {cuda::blocks_for(rows * h.all(), cuda::norm_warps), cuda::norm_threads},
                 cuda::norm_turn_kernel<T>, call.y.data<T>(), call.rstd.data(), call.x.data<T>(),
                 call.q_gain.data(), call.k_gain.data(), h, rows, call.eps);
  });
}

void CudaBackend::compute(const call::RotaryBackward& call) {
  const cuda::Heads h = cuda::heads_of(call, call.dy);
  if (!call.rstd) return cuda::launch_turn("rotary_backward", stream_.get(), call.dx, call.dy, h, -1);
  cuda::require_narrow("rotary_backward", h);
  // As many blocks as an H200 runs at once, or fewer: their sums depend on their number, so it depends on the
  // shape and not on the machine.
  constexpr std::int64_t most_blocks = 132 * 4;
  const std::int64_t rows = call.dy.rows(), rows_of_block = (rows + most_blocks - 1) / most_blocks;
  const unsigned blocks = cuda::blocks_for(rows, rows_of_block);
  const Tensor partial = empty({blocks, 2, h.D});
  cuda::with_type(call.dy.dtype(), [&]<class T>(T*) {
    cuda::launch("rotary_backward", stream_.get(), {blocks, cuda::norm_threads},
                 cuda::norm_turn_backward_kernel<T>, call.dx.data<T>(), partial.data(), call.dy.data<T>(),
                 call.x.data<T>(), call.rstd.data(), call.q_gain.data(), call.k_gain.data(), h, rows,
                 rows_of_block);
  });
  cuda::collect_sums(stream_.get(), call.dq_gain, call.dk_gain, partial, call.write);
}

}  // namespace mxtape
