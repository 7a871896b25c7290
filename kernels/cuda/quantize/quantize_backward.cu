#include "formats/straight_through.h"

#include "kernels/check_quantize.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize/quantize_by_definition.h"
#include "kernels/cuda/quantize/tensor_scale.h"

namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;

// A thread has one element.
template <class Y, class V>
__global__ void recode_kernel(Y* y, const V* values, const float* multiplier, std::int64_t n) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < n) store_at(y, i, value_at(values, i) * (multiplier ? *multiplier : 1.0f));
}

// The same; dx may be dy.
template <class Dx, class Dy, class X>
__global__ void straight_through_kernel(Dx* dx, const Dy* dy, const X* x, DefinitionTask task,
                                        StraightThrough ste) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= task.rows * task.cols) return;
  BlockScale s{task.rule.alpha, 1};
  if (task.scales) s = task.scales[block_of(task, i)];
  store_at(dx, i, value_at(dy, i) * straight_through_factor(ste, task.rule, s, value_at(x, i)));
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Recode& call) {
  check_recode(call);
  for (const Rounded* side : {&call.to, &call.from}) refuse_codes("cuda: recode", {side, 1});
  require(!is_narrow(call.to.layout) && !is_narrow(call.from.layout),
          "cuda: recode: no narrow layouts here; want stored");
  const bool stored = call.from.layout == Layout::stored;
  const Tensor &y = call.to.elements, &x = stored ? y : call.from.elements;
  const float* const multiplier = call.to.multiplier ? nullptr : call.from.multiplier.data();
  if (stored) unpack(y, call.from);
  if (stored && !multiplier) return;
  cuda::with_type(y.dtype(), [&]<class Y>(Y*) {
    cuda::with_type(x.dtype(), [&]<class X>(X*) {
      cuda::launch("recode", stream_.get(), {cuda::blocks_for(y.count(), cuda::threads), cuda::threads},
                   cuda::recode_kernel<Y, X>, y.data<Y>(), x.data<X>(), multiplier, y.count());
    });
  });
}

void CudaBackend::compute(const call::QuantizeBackward& call) {
  check_quantize_backward(call);
  const bool turns = call.by.rotation.size != 0, bends = call.ste.kind != SteKind::identity;
  Tensor gradient = turns && !call.rotated ? rotated(call.dy, call.by) : call.dy;
  if (bends && call.dy.count() > 0) {
    const Quantizer& q = call.by.quantizer;
    const Tensor x = turns ? rotated(call.x, call.by) : call.x;
    const Tensor bent = turns ? empty(call.dy.shape()) : call.dx;
    cuda::DefinitionTask task = cuda::definition_task(q, call.by.axis, call.dy.rows(), call.dy.cols());
    task.draws = clocked(call.by.draws);
    Tensor encode;
    if (q.has_tensor_scale()) {
      const Tensor parts = cuda::largest_of_parts(*this, stream_.get(), x);
      encode = cuda::tensor_scale(*this, stream_.get(), {}, parts, task.rule);
      task.encode = encode.data();
    }
    const Tensor scales = cuda::scale_blocks(*this, stream_.get(), x, task);
    cuda::with_type(bent.dtype(), [&]<class Dx>(Dx*) {
      cuda::with_type(gradient.dtype(), [&]<class Dy>(Dy*) {
        cuda::with_type(x.dtype(), [&]<class X>(X*) {
          cuda::launch("straight through", stream_.get(),
                       {cuda::blocks_for(call.dy.count(), cuda::threads), cuda::threads},
                       cuda::straight_through_kernel<Dx, Dy, X>, bent.data<Dx>(), gradient.data<Dy>(),
                       x.data<X>(), task, call.ste);
        });
      });
    });
    gradient = bent;
  }
  if (turns) gradient = rotated(gradient, call.by, RotationWay::back);
  if (gradient.raw() != call.dx.raw()) copy(call.dx, gradient);
}

}  // namespace mxtape
