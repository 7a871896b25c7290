#include "kernels/choose/gpu.h"

#include "core/error.h"
#ifdef MXTAPE_CUDA
#include "kernels/cuda/make_cuda_backend.h"
#endif

namespace mxtape {

std::unique_ptr<SideStream> make_side_stream([[maybe_unused]] Backend& backend) {
#ifdef MXTAPE_CUDA
  return make_cuda_side_stream(backend);
#else
  fail(ExitCode::internal, "side stream: this build has no device with streams");
#endif
}

std::string choose_gpu([[maybe_unused]] int local_rank) {
#ifdef MXTAPE_CUDA
  return choose_cuda_gpu(local_rank);
#else
  fail(ExitCode::usage,
       "cuda: this build has no CUDA backend; configure with -DMXTAPE_CUDA=ON, or use the device cpu");
#endif
}

}  // namespace mxtape
