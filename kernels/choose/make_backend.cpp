#include "kernels/choose/make_backend.h"

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/integer/dots.h"
#include "kernels/observers/bf16_activations.h"
#ifdef MXTAPE_CUDA
#include "kernels/cuda/make_cuda_backend.h"
#endif

namespace mxtape {

std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& options) {
  require(options.attention == AttentionKernels::own || device == "cuda", ExitCode::usage,
          "compute.attention: cuDNN's kernels need CUDA, the device is '{}'; use --compute.attention=own",
          device);
  require(options.gemm == GemmKernels::library || device == "cpu", ExitCode::usage,
          "compute.gemm: integer GEMMs are the CPU's, the device is '{}'; use --compute.gemm=library",
          device);
  if (device == "cpu") return std::make_unique<Bf16Activations>(std::make_unique<CpuBackend>(options.gemm));
#ifdef MXTAPE_CUDA
  if (device == "cuda") return make_cuda_backend(options);
  constexpr const char* have = "cpu, cuda";
#else
  require(device != "cuda", ExitCode::usage,
          "cuda: this build has no CUDA backend; configure with -DMXTAPE_CUDA=ON, or use the device cpu");
  constexpr const char* have = "cpu";
#endif
  fail(ExitCode::usage, "no device '{}'; this build has: {}", device, have);
}

GemmKernels quicker_gemm_kernels(std::string_view device) {
  const cpu::DotTier dots = cpu::dot_tier();
  const bool slow = dots == cpu::DotTier::portable || dots == cpu::DotTier::neon || cpu::has_amx();
  return device == "cpu" && !slow ? GemmKernels::integer : GemmKernels::library;
}

std::optional<CudaVersions> cuda_versions() {
#ifdef MXTAPE_CUDA
  return CudaVersions{cuda::runtime_version(), MXTAPE_CUDA_ARCHITECTURES, cuda::driver_version()};
#else
  return {};
#endif
}

}  // namespace mxtape
