#include <algorithm>

#include "kernels/calls_rows.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape {
namespace cuda {
namespace {

constexpr int threads = 256;

// The gradients of a model are many and mostly small: a launch takes a batch of them as an argument, cut into
// pieces of a fixed size, one block each.
constexpr std::int64_t piece = 1 << 15;
constexpr int most_gradients = 64;  // so that the argument stays below the 4 KiB that every version takes
struct GradientBatch {
  const float* data[most_gradients];
  std::int64_t count[most_gradients];
  std::uint32_t first_piece[most_gradients];  ///< of the gradient, in the batch
  int size = 0;
};

// A block's sum of squares, in double: a square of a large f32 is beyond f32. x is aligned to four.
__device__ double sum_of_squares(const float* x, std::int64_t count) {
  double sums[4] = {};
#pragma unroll 4
  for (std::int64_t i = 4 * int(threadIdx.x); i + 4 <= count; i += 4 * threads) {
    const float4 v = load_four(x + i);
    sums[0] += double(v.x) * double(v.x);
    sums[1] += double(v.y) * double(v.y);
    sums[2] += double(v.z) * double(v.z);
    sums[3] += double(v.w) * double(v.w);
  }
  const std::int64_t last = count / 4 * 4 + int(threadIdx.x);
  if (last < count) sums[0] += double(x[last]) * double(x[last]);
  return block_sum_double<threads>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// squares[blockIdx.x] = those of a piece of `unit` numbers.
__global__ void __launch_bounds__(threads)
    squares_kernel(double* squares, GradientBatch batch, std::int64_t unit) {
  int at = 0;
  for (int i = 1; i < batch.size; ++i) at = batch.first_piece[i] <= blockIdx.x ? i : at;
  const std::int64_t begin = std::int64_t(blockIdx.x - batch.first_piece[at]) * unit;
  const std::int64_t left = batch.count[at] - begin;
  const double sum = sum_of_squares(batch.data[at] + begin, left < unit ? left : unit);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

constexpr int factor_threads = 1024;
__global__ void __launch_bounds__(factor_threads)
    clip_factor_kernel(float* norm, float* factor, const double* squares, std::int64_t pieces,
                       float max_norm) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < pieces; i += factor_threads) sum += squares[i];
  sum = block_sum_double<factor_threads>(sum);
  if (threadIdx.x != 0) return;
  const float length = float(sqrt(sum));
  *norm = length;
  const bool finite = (bits_of(length) & 0x7f800000u) != 0x7f800000u;
  // min() alone would turn an infinite gradient into zeros elsewhere.
  if (!finite)
    *factor = float_of(0x7fc00000u);
  else
    *factor = max_norm == 0 || length <= max_norm ? 1 : max_norm / length;
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Squares& call) {
  require(call.unit % 4 == 0 || call.sums.count() == 1, "squares: units of {}; want a multiple of 4",
          call.unit);
  const cuda::GradientBatch one{{call.x.data()}, {call.x.count()}, {0}, 1};
  cuda::launch("squares", stream_.get(), {unsigned(call.sums.count()), cuda::threads}, cuda::squares_kernel,
               call.sums.data<double>(), one, call.unit);
}

void CudaBackend::compute(const call::ClipFactor& call) {
  if (call.squares) {
    cuda::launch("clip_factor", stream_.get(), {1, cuda::factor_threads}, cuda::clip_factor_kernel,
                 call.norm.data(), call.factor.data(), call.squares.data<double>(), call.squares.count(),
                 call.max_norm);
    return;
  }
  std::int64_t pieces = 0;
  for (const Tensor& g : call.gradients) pieces += (g.count() + cuda::piece - 1) / cuda::piece;
  const Tensor scratch = empty({std::max<std::int64_t>(pieces, 1), 2});
  auto* const squares = static_cast<double*>(scratch.raw());

  cuda::GradientBatch batch;
  std::uint32_t in_batch = 0;
  std::int64_t before = 0;
  const auto flush = [&] {
    if (batch.size)
      cuda::launch("squares", stream_.get(), {in_batch, cuda::threads}, cuda::squares_kernel,
                   squares + before, batch, cuda::piece);
    before += in_batch;
    batch.size = 0, in_batch = 0;
  };
  for (const Tensor& g : call.gradients) {
    if (g.count() == 0) continue;
    if (batch.size == cuda::most_gradients) flush();
    batch.data[batch.size] = g.data();
    batch.count[batch.size] = g.count();
    batch.first_piece[batch.size++] = in_batch;
    in_batch += cuda::blocks_for(g.count(), cuda::piece);
  }
  flush();
  cuda::launch("clip_factor", stream_.get(), {1, cuda::factor_threads}, cuda::clip_factor_kernel,
               call.norm.data(), call.factor.data(), squares, pieces, call.max_norm);
}

}  // namespace mxtape
