#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/backend_options.h"

namespace mxtape {

/// What a device multiplies quicker: codes on a CPU with AVX2 or SDOT, and no AMX; else values. Measures
/// nothing: AVX-512 without VNNI was not tried, and takes codes for the same bits as its neighbours.
GemmKernels quicker_gemm_kernels(std::string_view device);

/// "cpu", "cuda". Throws Error(usage) for devices that this build does not have, naming those it has, and for
/// attention or GEMM kernels that the device or this build does not have.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& = {});

struct CudaVersions {
  std::string runtime;        ///< of the toolkit that built the program, whose runtime is linked in: "13.0"
  std::string architectures;  ///< that kernels were compiled for: "90 100"
  std::string driver;         ///< the newest CUDA that this machine's driver runs; empty: no driver
};
/// Nothing in a build without CUDA.
std::optional<CudaVersions> cuda_versions();

}  // namespace mxtape
