#include "kernels/make_backend.h"

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

std::unique_ptr<Backend> make_backend(const std::string& device) {
  if (device == "cpu") return std::make_unique<CpuBackend>();
  fail(ExitCode::usage, "compute.device: no device '{}'; this build has: cpu", device);
}

}  // namespace mxtape
