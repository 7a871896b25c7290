#include "kernels/calls_rows.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"

namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;

// In the operations of the CPU's loop, one by one. A thread has one element.
__global__ void weight_average_kernel(float* average, const float* value, std::int64_t count,
                                      const float* factor, float decay) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count || *factor != *factor) return;
  average[i] = average[i] * decay + value[i] * (1 - decay);
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::WeightAverage& call) {
  const std::int64_t count = call.average.count();
  cuda::launch("weight_average", stream_.get(), {cuda::blocks_for(count, cuda::threads), cuda::threads},
               cuda::weight_average_kernel, call.average.data(), call.value.data(), count, call.factor.data(),
               call.decay);
}

}  // namespace mxtape
