#include "kernels/cuda/versions.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

namespace mxtape::cuda {
namespace {

/// 13020 -> "13.2"
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::string runtime_version() {
  int version = 0;
  (void)cudaRuntimeGetVersion(&version);  // fails only for a null pointer
  return version_text(version);
}

std::string driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess && version > 0 ? version_text(version) : "";
}

}  // namespace mxtape::cuda
