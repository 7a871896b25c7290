#include <climits>

#include "core/normal.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;

template <class T>
__global__ void fill_kernel(T* y, std::int64_t n, float value) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < n) store_at(y, i, value);
}

// A thread has eight neighbours, where those of x and y begin on 16 bytes; else one element.
template <class To, class From, bool aligned>
__global__ void convert_kernel(To* y, const From* x, std::int64_t n) {
  const std::int64_t index = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if constexpr (aligned) {
    const std::int64_t i = 8 * index;
    const int count = n - i < 8 ? int(n - i) : 8;
    if (i < n) store_first(y + i, load_first(x + i, count), count);
  } else {
    if (index < n) store_at(y, index, value_at(x, index));
  }
}

template <class To, class From>
void convert(cudaStream_t stream, To* y, const From* x, std::int64_t n) {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
  const auto kernel = aligned ? convert_kernel<To, From, true> : convert_kernel<To, From, false>;
  launch("convert", stream, {blocks_for(n, aligned ? 8 * threads : threads), threads}, kernel, y, x, n);
}

// One thread makes the pair of draws that two neighbours share.
__global__ void normal_kernel(float* y, std::int64_t n, float deviation, ClockedKey clocked) {
  const DrawKey key = now(clocked);
  const std::uint64_t first_pair = key.first_element >> 1;
  const std::uint64_t pair = first_pair + std::uint64_t(blockIdx.x) * threads + threadIdx.x;
  const auto [first, second] = normal_pair(key, pair);
  const std::int64_t i = std::int64_t(2 * pair - key.first_element);  // -1 if only the second is ours
  if (i >= 0 && i < n) y[i] = first * deviation;
  if (i + 1 >= 0 && i + 1 < n) y[i + 1] = second * deviation;
}

// A block finds the first of its range; the host takes the first of all: no atomics, and no order.
template <class T>
__global__ void nonfinite_kernel(std::int32_t* first, const T* x, std::int64_t n) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  const float value = i < n ? value_at(x, i) : 0.0f;
  const bool bad = (bits_of(value) & 0x7f800000u) == 0x7f800000u;
  const int least =
      block_fold<int(threads)>(bad ? int(threadIdx.x) : INT_MAX, [](int a, int b) { return b < a ? b : a; });
  if (threadIdx.x == 0) first[blockIdx.x] = least;
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Fill& call) {
  cuda::with_type(call.y.dtype(), [&]<class T>(T*) {
    cuda::launch("fill", stream_.get(), {cuda::blocks_for(call.y.count(), cuda::threads), cuda::threads},
                 cuda::fill_kernel<T>, call.y.data<T>(), call.y.count(), call.value);
  });
}

void CudaBackend::compute(const call::Copy& call) {
  require(call.y.count() == call.x.count(), "copy: y is {}, x is {}; want the same size", call.y.shape(),
          call.x.shape());
  if (call.y.dtype() == call.x.dtype())
    return cuda::check(cudaMemcpyAsync(call.y.raw(), call.x.raw(), std::size_t(call.x.bytes()),
                                       cudaMemcpyDeviceToDevice, stream_.get()),
                       "copy");
  cuda::with_type(call.y.dtype(), [&]<class To>(To*) {
    cuda::with_type(call.x.dtype(), [&]<class From>(From*) {
      cuda::convert(stream_.get(), call.y.data<To>(), call.x.data<From>(), call.y.count());
    });
  });
}

void CudaBackend::compute(const call::Normal& call) {
  cuda::launch("normal", stream_.get(),
               {cuda::blocks_for(call.y.count() / 2 + 1, cuda::threads), cuda::threads}, cuda::normal_kernel,
               call.y.data(), call.y.count(), call.deviation, clocked(call.key));
}

std::int64_t CudaBackend::first_nonfinite(const Tensor& x) {
  if (x.dtype() == DType::i32 || x.dtype() == DType::u8 || x.count() == 0) return -1;  // integers are finite
  const unsigned blocks = cuda::blocks_for(x.count(), cuda::threads);
  const Tensor first = empty({blocks}, DType::i32);
  cuda::with_type(x.dtype(), [&]<class T>(T*) {
    cuda::launch("first_nonfinite", stream_.get(), {blocks, cuda::threads}, cuda::nonfinite_kernel<T>,
                 first.data<std::int32_t>(), x.data<T>(), x.count());
  });
  std::vector<std::int32_t> found(blocks);
  download(found.data(), first);
  for (std::size_t b = 0; b < found.size(); ++b)
    if (found[b] != INT_MAX) return std::int64_t(b) * cuda::threads + found[b];
  return -1;
}

}  // namespace mxtape
