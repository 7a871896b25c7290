#pragma once
#include <optional>
#include <string>

namespace mxtape {

/// The library of the CPU's products, as it runs here.
struct CpuLibraryVersion {
  std::string version;          ///< of oneDNN: "2.6.3"
  std::string instruction_set;  ///< "avx512_core_bf16", and what it cannot do on this machine
};
CpuLibraryVersion cpu_library_version();

struct CudaVersions {
  std::string runtime;        ///< of the toolkit that built the program, whose runtime is linked in: "13.0"
  std::string architectures;  ///< that kernels were compiled for: "90a 100a"
  std::string driver;         ///< the newest CUDA that this machine's driver runs; empty: no driver
};
/// Nothing in a build without CUDA.
std::optional<CudaVersions> cuda_versions();

}  // namespace mxtape
