#include "core/error.h"
#include "kernels/cuda/cuda_backend.h"

// Methods that have no kernel yet.
namespace mxtape {
void CudaBackend::quantize(std::span<QuantizedCopy>, const Tensor&, const DrawKey&, const Tensor&, Write) {
  fail(ExitCode::internal, "cuda: quantize: no kernel yet");
}
}  // namespace mxtape
