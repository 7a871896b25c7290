#include "program/show/version.h"

#include <fmt/format.h>

#include "data/hdf5/hdf5.h"
#include "kernels/choose/make_backend.h"

namespace mxtape {
namespace {

std::string compiler() {
#ifdef __clang__
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string cuda_text(const std::optional<CudaVersions>& cuda) {
  if (!cuda) return "without";
  return fmt::format("{}, kernels for {}, {}", cuda->runtime, cuda->architectures,
                     cuda->driver.empty() ? "no driver here" : "driver for " + cuda->driver);
}

}  // namespace

Report version(std::string_view commit) {
  const CpuLibraryVersion onednn = cpu_library_version();
  const auto cuda = cuda_versions();
  Report out;
  out.line("mxtape {} (commit {})", MXTAPE_VERSION, commit);
  out.line("compiler  {}\noneDNN    {} {}\nCUDA      {}\nHDF5      {}", compiler(), onednn.version,
           onednn.instruction_set, cuda_text(cuda), hdf5_version());
  out.put("version", MXTAPE_VERSION, "commit", commit, "compiler", compiler(), "onednn",
          object("version", onednn.version, "instruction_set", onednn.instruction_set), "cuda",
          cuda ? object("runtime", cuda->runtime, "architectures", cuda->architectures, "driver",
                        Value(cuda->driver, "no driver on this machine"))
               : Value(nullptr, "built without CUDA"),
          "hdf5", hdf5_version());
  return out;
}

}  // namespace mxtape
