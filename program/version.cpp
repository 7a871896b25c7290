#include "program/version.h"

#include <fmt/format.h>

#include <cstdio>

#include "data/hdf5/hdf5_version.h"
#include "kernels/choose/library_versions.h"
#include "program/show/report.h"

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

void print_version(std::string_view commit, VersionForm form) {
  const CpuLibraryVersion onednn = cpu_library_version();
  const auto cuda = cuda_versions();
  if (form == VersionForm::text) {
    fmt::print("mxtape {} (commit {})\n", MXTAPE_VERSION, commit);
    fmt::print("compiler  {}\noneDNN    {} {}\nCUDA      {}\nHDF5      {}\n", compiler(), onednn.version,
               onednn.instruction_set, cuda_text(cuda), hdf5_version());
    return;
  }
  Json json{{"version", MXTAPE_VERSION}, {"commit", commit}, {"compiler", compiler()}};
  json["onednn"] = {{"version", onednn.version}, {"instruction_set", onednn.instruction_set}};
  if (cuda) {
    json["cuda"] = {{"runtime", cuda->runtime}, {"architectures", cuda->architectures}};
    put(json["cuda"], "driver", {cuda->driver, "no driver on this machine"});
  } else {
    put(json, "cuda", {nullptr, "built without CUDA"});
  }
  json["hdf5"] = hdf5_version();
  print_json(json);
}

}  // namespace mxtape
