#include "core/error.h"
#include "kernels/cuda/cudnn/cudnn_attention.h"

// Stands in for cudnn_attention.cpp where cuDNN's headers are missing.
namespace mxtape::cuda {

struct CudnnAttention::Plans {};

CudnnAttention::CudnnAttention(Backend&, const Stream&) {
  fail(ExitCode::usage,
       "compute.attention: this build has no cuDNN; install its headers (cudnn_backend.h, 9.8 or newer) and "
       "configure again, or use --compute.attention=own");
}
CudnnAttention::~CudnnAttention() = default;
std::string CudnnAttention::description() const { return ""; }
void CudnnAttention::forward(const Tensor&, const Tensor&, const Tensor&, const AttentionShape&) {}
void CudnnAttention::backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const AttentionShape&) {}

}  // namespace mxtape::cuda
