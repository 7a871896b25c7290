#include "kernels/calls_rows.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows/row_parts.cuh"

namespace mxtape {
namespace cuda {
namespace {

// A block owns a row. The row is read from device memory once and kept in shared memory, if it fits, for the
// passes that find its largest number, the sum of the exponentials and the results; a thread sees only what
// it put there itself. Rows that do not fit are read again each time.
constexpr int most_threads = 1024;
// Where two blocks fit on a multiprocessor (not on Ada and consumer Blackwell), one loads while the other
// computes.
constexpr int blocks_at_once = threads_of_multiprocessor / most_threads;
constexpr std::int64_t taken_shared = 1 << 10;  // by the reductions
constexpr float infinity = __builtin_huge_valf();

/// The row in chunks of eight that start at aligned addresses, whatever the row's own alignment is (an odd
/// vocabulary): the first and the last may lie partly outside.
template <class T>
struct AlignedRow {
  T* base;         ///< of chunk 0
  int begin, end;  ///< of the row, in elements from base

  __device__ AlignedRow(T* x, std::int64_t row, int C) {
    const std::int64_t first = row * C;
    begin = int(first % 8);
    base = x + (first - begin);
    end = begin + C;
  }
  __device__ int chunks() const { return (end + 7) / 8; }
  __device__ bool whole(int chunk) const { return 8 * chunk >= begin && 8 * chunk + 8 <= end; }
  __device__ bool inside(int i) const { return i >= begin && i < end; }
  /// A chunk; `missing` outside of the row.
  __device__ Eight load(int chunk, float missing) const {
    if (whole(chunk)) return load_eight(base + 8 * chunk);
    Eight e;
#pragma unroll
    for (int k = 0; k < 8; ++k) e.values[k] = inside(8 * chunk + k) ? value_at(base, 8 * chunk + k) : missing;
    return e;
  }
  __device__ void store(int chunk, const Eight& e) const {
    if (whole(chunk)) return store_eight(base + 8 * chunk, e);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (inside(8 * chunk + k)) store_at(base, 8 * chunk + k, e.values[k]);
  }
};

/// e^x for x <= 0: besides the error of exp2_fast, 1.25 |x| units of roundoff from the product and log2(e).
__device__ float exponential(float x) {
  constexpr float log2_e = 0x1.715476p+0f;
  return exp2_fast(x * log2_e);
}

/// A row of logits and what a softmax needs of it.
template <class T, bool kept>
struct SoftmaxRow {
  AlignedRow<const T> row;
  T* copy;  ///< of the row, in shared memory
  float top, total;

  __device__ SoftmaxRow(const T* x, std::int64_t index, int C, int& turn)
      : row(x, index, C), copy(kept ? dynamic_shared<T>() : nullptr), top(-infinity) {
    if constexpr (kept) keep();
    for (int chunk = int(threadIdx.x); chunk < row.chunks(); chunk += int(blockDim.x)) {
      const Eight e = load(chunk);
#pragma unroll
      for (const float v : e.values) top = fmaxf(v, top);  // a NaN shows in the sum
    }
    top = block_max(top, turn);
    total = 0;
    for (int chunk = int(threadIdx.x); chunk < row.chunks(); chunk += int(blockDim.x))
      total += sum_of(exponentials(chunk));
    total = block_sum(total, turn);
  }
  /// e^(x - top); 0 outside of the row.
  __device__ Eight exponentials(int chunk) const {
    Eight e = load(chunk);
#pragma unroll
    for (float& v : e.values) v = exponential(v - top);
    return e;
  }

 private:
  __device__ Eight load(int chunk) const {
    if constexpr (kept) return load_eight(copy + 8 * chunk);
    return row.load(chunk, -infinity);
  }
  __device__ void keep() {
    for (int chunk = int(threadIdx.x); chunk < row.chunks(); chunk += int(blockDim.x))
      if (row.whole(chunk)) {
        for (int part = 0; part < 8; part += int(16 / sizeof(T)))
          async_copy_16(copy + 8 * chunk + part, row.base + 8 * chunk + part);
      } else {
        const Eight ragged = row.load(chunk, -infinity);  // the first or the last of the row
#pragma unroll
        for (int k = 0; k < 8; ++k) store_at(copy, 8 * chunk + k, ragged.values[k]);
      }
    async_commit();
    async_wait<0>();
  }
};

// dlogits = each * (softmax - one-hot), unless null.
template <class T, bool kept>
__global__ void __launch_bounds__(most_threads, blocks_at_once)
    cross_entropy_kernel(float* losses, T* dlogits, const T* logits, const std::int32_t* targets, int V,
                         float each) {
  const int target = targets[blockIdx.x];
  const float logit = value_at(logits, std::int64_t(blockIdx.x) * V + target);
  int turn = 0;
  const SoftmaxRow<T, kept> softmax(logits, blockIdx.x, V, turn);
  const float at_target = logit - softmax.top;
  if (threadIdx.x == 0) losses[blockIdx.x] = float(log(double(softmax.total)) - double(at_target));
  if (!dlogits) return;
  const AlignedRow<T> out(dlogits, blockIdx.x, V);
  const float factor = softmax.total - at_target < infinity ? each / softmax.total : __builtin_nanf("");
  for (int chunk = int(threadIdx.x); chunk < out.chunks(); chunk += int(blockDim.x)) {
    Eight e = softmax.exponentials(chunk);
#pragma unroll
    for (float& v : e.values) v *= factor;
    out.store(chunk, e);
  }
  // The thread that has just written the target's chunk writes its element again.
  const int place = out.begin + target;
  if (place / 8 % int(blockDim.x) == int(threadIdx.x))
    store_at(out.base, place, exponential(at_target) * factor - each);
}

__global__ void __launch_bounds__(most_threads) mean_kernel(float* mean, const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += most_threads) sum += double(x[i]);
  sum = block_sum_double<most_threads>(sum);
  if (threadIdx.x == 0) *mean = float(sum / double(n));
}

/// By how many threads a row is reduced, and whether it is kept. The threads cut the sums, so they depend on
/// the length only: the fewest that take as few rounds as the most.
struct RowPlan {
  unsigned threads;
  bool kept;
  std::size_t shared_bytes;
};
RowPlan plan_rows(const Tensor& x, std::int64_t available) {
  const std::int64_t chunks = (x.cols() + 7 + 7) / 8, bytes = chunks * 8 * size_of(x.dtype());
  const std::int64_t rounds = (chunks + most_threads - 1) / most_threads;
  const std::int64_t a_round = (chunks + rounds - 1) / rounds;
  const bool kept = bytes <= available - taken_shared;
  return {unsigned((a_round + warp_lanes - 1) / warp_lanes * warp_lanes), kept,
          kept ? std::size_t(bytes) : 0};
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::CrossEntropy& call) {
  const std::int64_t V = call.logits.cols(), rows = call.logits.rows();
  const cuda::RowPlan plan = cuda::plan_rows(call.logits, stream_.shared_bytes());
  require(rows > 0, "cross_entropy: no rows; a mean of nothing is no number");
  cuda::with_type(call.logits.dtype(), [&]<class T>(T*) {
    cuda::launch("cross_entropy", stream_.get(), {cuda::blocks_for(rows, 1), plan.threads, plan.shared_bytes},
                 plan.kept ? cuda::cross_entropy_kernel<T, true> : cuda::cross_entropy_kernel<T, false>,
                 call.losses.data(), call.dlogits.data<T>(), call.logits.data<T>(),
                 call.targets.data<std::int32_t>(), V, call.scale / float(rows));
  });
  cuda::launch("loss_mean", stream_.get(), {1, cuda::most_threads}, cuda::mean_kernel, call.loss.data(),
               call.losses.data(), rows);
}

}  // namespace mxtape
