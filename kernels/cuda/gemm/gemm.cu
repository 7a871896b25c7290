#include "core/error.h"
#include "kernels/check_quantize.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/extents.h"

namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;
constexpr std::uintptr_t bias_alignment = 16;  // of cuBLASLt's epilogue, which reads vectors

// alpha and beta for a product whose operands carry multipliers: one thread, as they are two numbers.
__global__ void scale_kernel(float* scale, const float* a, const float* b, float beta) {
  if (threadIdx.x != 0) return;
  scale[0] = (a ? *a : 1.0f) * (b ? *b : 1.0f);
  scale[1] = beta;
}

// What a product is whose sums have no terms.
template <class T>
__global__ void empty_sum_kernel(T* c, const float* bias, std::int64_t count, std::int64_t N,
                                 bool accumulate) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < count) store_at(c, i, (accumulate ? value_at(c, i) : 0.0f) + (bias ? bias[i % N] : 0.0f));
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Gemm& call) {
  const bool accumulate = call.write == Write::accumulate;
  for (const Rounded* side : {&call.a, &call.b}) refuse_codes("cuda: gemm", {side, 1});
  const auto [M, N, K] = extents_of(call);
  require(call.c.dtype() == DType::f32 || (call.c.dtype() == DType::bf16 && !accumulate),
          "gemm: c is {}; want f32 or, if nothing is added to, bf16", name_of(call.c.dtype()));
  if (call.c.count() == 0) return;

  const auto as = [&](DType dtype, const Tensor& x) {
    if (!x || x.dtype() == dtype) return x;
    const Tensor y = empty(x.shape(), dtype);
    copy(y, x);
    return y;
  };
  Tensor addend = as(call.c.dtype(), call.bias);  // rounded once, whatever path follows
  if (K == 0)
    return cuda::with_type(call.c.dtype(), [&]<class T>(T*) {
      const Tensor wide = as(DType::f32, addend);
      cuda::launch("empty_sum", stream_.get(),
                   {cuda::blocks_for(call.c.count(), cuda::threads), cuda::threads},
                   cuda::empty_sum_kernel<T>, call.c.data<T>(), wide.data(), call.c.count(), N, accumulate);
    });

  last_gemm_ = gemm_path(call.a.elements.dtype(), call.b.elements.dtype());
  const bool narrow = last_gemm_ == GemmPath::bf16;
  const DType operands = narrow ? DType::bf16 : DType::f32;
  const DType result = narrow ? call.c.dtype() : DType::f32;  // f32 operands have f32 results
  addend = as(result, addend);
  if (addend && reinterpret_cast<std::uintptr_t>(addend.raw()) % cuda::bias_alignment != 0) {
    const Tensor aligned = empty(addend.shape(), addend.dtype());
    copy(aligned, addend);
    addend = aligned;
  }
  Tensor scale;
  if (call.a.multiplier || call.b.multiplier) {
    scale = empty({2});
    cuda::launch("scale", stream_.get(), {1, cuda::warp_lanes}, cuda::scale_kernel, scale.data(),
                 call.a.multiplier.data(), call.b.multiplier.data(), accumulate ? 1.0f : 0.0f);
  }
  const Tensor out = result == call.c.dtype() ? call.c : empty({M, N}, result);
  gemms_.multiply({out, as(operands, call.a.elements), as(operands, call.b.elements), call.a.axis,
                   call.b.axis, addend, scale, call.write});
  if (result != call.c.dtype()) copy(call.c, out);
}

}  // namespace mxtape
