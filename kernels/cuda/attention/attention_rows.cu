#include "kernels/cuda/attention/attention_rows.cuh"

#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape::cuda {
namespace {

constexpr int threads = 256;
constexpr int rows_per_block = threads / row_lanes;

__device__ std::int64_t row_of_thread() {
  return std::int64_t(blockIdx.x) * rows_per_block + threadIdx.x / row_lanes;
}
__device__ int lane_of_row() { return int(threadIdx.x) % row_lanes; }

// Sixteen lanes a row; four running sums, as the CPU's sum_lanes().
template <class T>
__global__ void delta_kernel(float* delta, const T* a, const T* b, AttentionShape s) {
  const std::int64_t row = row_of_thread(), rows = s.batch * s.time * s.heads, D = s.width;
  const std::int64_t length = row < rows ? D : 0;
  const T *const x = a + row * D, *const y = b + row * D;
  const auto product = [&](std::int64_t i) { return i < length ? value_at(x, i) * value_at(y, i) : 0.0f; };
  float sums[4] = {};
  std::int64_t i = lane_of_row();
  for (; i - lane_of_row() + 4 * row_lanes <= length; i += 4 * row_lanes)
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[k] += product(i + k * row_lanes);
  for (; i - lane_of_row() < length; i += row_lanes) sums[0] += product(i);
  const float sum = warp_sum<row_lanes>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (row < rows && lane_of_row() == 0) {
    const std::int64_t b_t = row / s.heads, h = row % s.heads;
    delta[(b_t / s.time * s.heads + h) * s.time + b_t % s.time] = sum;
  }
}

// s = softmax(scale s) over the keys that a query sees, 0 for the others, in place; lse as well. A lane
// reads only what it alone writes, so nothing has to be ordered.
__global__ void masked_softmax_kernel(float* s, float* lse, SeenKeys keys, std::int64_t head, float scale) {
  const std::int64_t query = row_of_thread(), count = keys.shape.keys;
  const bool inside = query < keys.shape.time;
  float* const row = s + (inside ? query : 0) * count;
  const std::int64_t seen = inside ? keys.shape.seen(query, keys.length(head)) : 0;
  float highest = -__builtin_inff();
  for (std::int64_t i = lane_of_row(); i < seen; i += row_lanes)
    highest = row[i] > highest ? row[i] : highest;
  const float top = warp_max<row_lanes>(highest) * scale;
  float terms = 0;
  for (std::int64_t i = lane_of_row(); i < seen; i += row_lanes) {
    row[i] = exp_as_cpu(row[i] * scale - top);
    terms += row[i];
  }
  const float total = warp_sum<row_lanes>(terms), factor = 1 / total;
  if (!inside) return;
  if (lane_of_row() == 0) lse[query] = top + float(log(double(total)));
  for (std::int64_t i = lane_of_row(); i < count; i += row_lanes) row[i] = i < seen ? row[i] * factor : 0.0f;
}

// p = e^(scale p - lse); dp = scale p (dp - delta).
__global__ void masked_softmax_backward_kernel(float* p, float* dp, const float* lse, const float* delta,
                                               SeenKeys keys, std::int64_t head, float scale) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x, count = keys.shape.keys;
  if (i >= keys.shape.time * count) return;
  const std::int64_t query = i / count;
  const bool seen = i % count < keys.shape.seen(query, keys.length(head));
  p[i] = seen ? exp_as_cpu(p[i] * scale - lse[query]) : 0.0f;
  dp[i] = seen ? p[i] * (dp[i] - delta[query]) * scale : 0.0f;
}

__global__ void hide_scores_kernel(float* s, SeenKeys keys, std::int64_t head) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x, count = keys.shape.keys;
  if (i >= keys.shape.time * count) return;
  if (i % count >= keys.shape.seen(i / count, keys.length(head))) s[i] = 0;
}

// A head's part of x as f32 [rows, D], and back.
__device__ std::int64_t place_in(const AttentionPart& part, std::int64_t head, std::int64_t i) {
  return part.offset(head) + i / part.width * part.row + i % part.width;
}
template <class T>
__global__ void take_head_kernel(float* y, const T* x, AttentionPart from, std::int64_t head) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < from.rows * from.width) y[i] = value_at(x, place_in(from, head, i));
}
template <class T>
__global__ void put_head_kernel(T* y, const float* x, AttentionPart to, std::int64_t head) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < to.rows * to.width) store_at(y, place_in(to, head, i), x[i]);
}

}  // namespace

void masked_softmax(cudaStream_t stream, const Tensor& s, float* lse, const SeenKeys& keys, std::int64_t head,
                    float scale) {
  launch("masked_softmax", stream, {blocks_for(s.rows(), rows_per_block), threads}, masked_softmax_kernel,
         s.data(), lse, keys, head, scale);
}

void masked_softmax_backward(cudaStream_t stream, const Tensor& p, const Tensor& dp, const float* lse,
                             const float* delta, const SeenKeys& keys, std::int64_t head, float scale) {
  launch("masked_softmax_backward", stream, {blocks_for(p.count(), threads), threads},
         masked_softmax_backward_kernel, p.data(), dp.data(), lse, delta, keys, head, scale);
}

void hide_scores(cudaStream_t stream, const Tensor& s, const SeenKeys& keys, std::int64_t head) {
  launch("hide_scores", stream, {blocks_for(s.count(), threads), threads}, hide_scores_kernel, s.data(), keys,
         head);
}

Tensor take_head(Backend& backend, cudaStream_t stream, const Tensor& x, const AttentionPart& part,
                 std::int64_t head) {
  const Tensor y = backend.empty({part.rows, part.width});
  with_type(x.dtype(), [&]<class T>(T*) {
    launch("take_head", stream, {blocks_for(y.count(), threads), threads}, take_head_kernel<T>, y.data(),
           x.data<T>(), part, head);
  });
  return y;
}

void put_head(cudaStream_t stream, const Tensor& y, const Tensor& x, const AttentionPart& part,
              std::int64_t head) {
  with_type(y.dtype(), [&]<class T>(T*) {
    launch("put_head", stream, {blocks_for(x.count(), threads), threads}, put_head_kernel<T>, y.data<T>(),
           x.data(), part, head);
  });
}

Tensor attention_delta(const AttentionBackward& call) {
  const AttentionShape& s = call.shape;
  const Tensor delta = call.backend.empty({s.batch, s.heads, s.time});
  with_type(call.o.dtype(), [&]<class T>(T*) {
    launch("attention_delta", call.stream, {blocks_for(s.batch * s.time * s.heads, rows_per_block), threads},
           delta_kernel<T>, delta.data(), call.d_o.data<T>(), call.o.data<T>(), s);
  });
  return delta;
}

}  // namespace mxtape::cuda
