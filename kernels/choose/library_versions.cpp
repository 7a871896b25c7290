#include "kernels/choose/library_versions.h"

#include "kernels/cpu/gemm.h"
#ifdef MXTAPE_CUDA
#include "kernels/cuda/versions.h"
#endif

namespace mxtape {

CpuLibraryVersion cpu_library_version() {
  const std::string text = cpu::describe_gemm_library();  // "oneDNN 2.6.3 avx512_core_bf16"
  const auto version = text.find(' ') + 1, instructions = text.find(' ', version) + 1;
  return {text.substr(version, instructions - 1 - version), text.substr(instructions)};
}

std::optional<CudaVersions> cuda_versions() {
#ifdef MXTAPE_CUDA
  return CudaVersions{cuda::runtime_version(), MXTAPE_CUDA_ARCHITECTURES, cuda::driver_version()};
#else
  return {};
#endif
}

}  // namespace mxtape
