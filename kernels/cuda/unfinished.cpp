#include "core/error.h"
#include "kernels/cuda/cuda_backend.h"

// Methods that have no kernel yet.
namespace mxtape {
void CudaBackend::quantize(std::span<QuantizedCopy>, const Tensor&, const DrawKey&, const Tensor&, Write) {
  fail(ExitCode::internal, "cuda: quantize: no kernel yet");
}
void CudaBackend::attention(const Tensor&, const Tensor&, const Tensor&, AttentionShape,
                            const AttentionQuant&, const DrawKey&) {
  fail(ExitCode::internal, "cuda: attention: no kernel yet");
}
void CudaBackend::attention_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&, AttentionShape, const AttentionQuant&, const DrawKey&) {
  fail(ExitCode::internal, "cuda: attention_backward: no kernel yet");
}
}  // namespace mxtape
