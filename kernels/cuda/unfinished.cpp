#include "core/error.h"
#include "kernels/cuda/cuda_backend.h"

// Methods that have no kernel yet.
namespace mxtape {
void CudaBackend::quantize(std::span<QuantizedCopy>, const Tensor&, const DrawKey&, const Tensor&, Write) {
  fail(ExitCode::internal, "cuda: quantize: no kernel yet");
}
void CudaBackend::add(const Tensor&, const Tensor&, const Tensor&) {
  fail(ExitCode::internal, "cuda: add: no kernel yet");
}
void CudaBackend::gelu(const Tensor&, const Tensor&, Gelu) {
  fail(ExitCode::internal, "cuda: gelu: no kernel yet");
}
void CudaBackend::gelu_backward(const Tensor&, const Tensor&, const Tensor&, Gelu) {
  fail(ExitCode::internal, "cuda: gelu_backward: no kernel yet");
}
void CudaBackend::dropout(const Tensor&, const Tensor&, float, const DrawKey&) {
  fail(ExitCode::internal, "cuda: dropout: no kernel yet");
}
void CudaBackend::layer_norm(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const Tensor&, float) {
  fail(ExitCode::internal, "cuda: layer_norm: no kernel yet");
}
void CudaBackend::layer_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                      const Tensor&, const Tensor&, const Tensor&, const Tensor&, Write) {
  fail(ExitCode::internal, "cuda: layer_norm_backward: no kernel yet");
}
void CudaBackend::softmax(const Tensor&, const Tensor&) {
  fail(ExitCode::internal, "cuda: softmax: no kernel yet");
}
void CudaBackend::softmax_backward(const Tensor&, const Tensor&, const Tensor&) {
  fail(ExitCode::internal, "cuda: softmax_backward: no kernel yet");
}
void CudaBackend::cross_entropy(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                float) {
  fail(ExitCode::internal, "cuda: cross_entropy: no kernel yet");
}
void CudaBackend::embedding(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  fail(ExitCode::internal, "cuda: embedding: no kernel yet");
}
void CudaBackend::embedding_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, Write,
                                     Write) {
  fail(ExitCode::internal, "cuda: embedding_backward: no kernel yet");
}
void CudaBackend::attention(const Tensor&, const Tensor&, const Tensor&, AttentionShape,
                            const AttentionQuant&, const DrawKey&) {
  fail(ExitCode::internal, "cuda: attention: no kernel yet");
}
void CudaBackend::attention_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&, AttentionShape, const AttentionQuant&, const DrawKey&) {
  fail(ExitCode::internal, "cuda: attention_backward: no kernel yet");
}
void CudaBackend::clip_factor(const Tensor&, const Tensor&, std::span<const Tensor>, float) {
  fail(ExitCode::internal, "cuda: clip_factor: no kernel yet");
}
void CudaBackend::adamw(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        const Tensor&, const AdamWStep&) {
  fail(ExitCode::internal, "cuda: adamw: no kernel yet");
}
}  // namespace mxtape
