#include "kernels/cuda/cublas_lt.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <type_traits>
#include <vector>

#include "core/error.h"

namespace mxtape::cuda {
namespace {

constexpr std::size_t oldest = 120800;
static_assert(CUBLAS_VERSION >= oldest, "cublasLt.h is older than 12.8");

std::string text_of(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

std::string CublasLt::version_text() const { return text_of(version); }

void CublasLt::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail(ExitCode::resource, "cuda: cuBLASLt {}: {}: {}; the last checkpoint is intact", version_text(), what,
       status_name(status));
}

CublasLt load_cublas_lt(std::span<const std::string> candidates) {
  void* library = nullptr;
  std::string file;
  for (const auto& candidate : candidates) {
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: it has threads and caches
    file = candidate;
    if (library) break;
  }
  require(
      library != nullptr, ExitCode::resource,
      "cuda: cuBLASLt is not installed; looked for {}. Install CUDA 12.8 or newer (libcublas), or put the "
      "folder of libcublasLt.so on LD_LIBRARY_PATH, or use --compute.device=cpu",
      fmt::join(candidates, ", "));

  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    require(function != nullptr, ExitCode::resource,
            "cuda: {} has no {}; install the cuBLAS of CUDA 12.8 or newer, or use --compute.device=cpu", file,
            name);
  };
  CublasLt lt{};
  decltype(&cublasLtGetVersion) version = nullptr;
  find(version, "cublasLtGetVersion");
  lt.version = version();
  require(
      lt.version >= oldest, ExitCode::resource,
      "cuda: {} is cuBLASLt {}; want {} or newer: install CUDA 12.8 or newer, or put its libraries first on "
      "LD_LIBRARY_PATH, or use --compute.device=cpu",
      file, text_of(lt.version), text_of(oldest));
  find(lt.create, "cublasLtCreate");
  find(lt.destroy, "cublasLtDestroy");
  find(lt.status_name, "cublasLtGetStatusName");
  find(lt.matmul, "cublasLtMatmul");
  find(lt.choose, "cublasLtMatmulAlgoGetHeuristic");
  find(lt.algorithm_attribute, "cublasLtMatmulAlgoConfigGetAttribute");
  find(lt.algorithm_capability, "cublasLtMatmulAlgoCapGetAttribute");
  find(lt.create_operation, "cublasLtMatmulDescCreate");
  find(lt.destroy_operation, "cublasLtMatmulDescDestroy");
  find(lt.set_operation, "cublasLtMatmulDescSetAttribute");
  find(lt.get_operation, "cublasLtMatmulDescGetAttribute");
  find(lt.create_layout, "cublasLtMatrixLayoutCreate");
  find(lt.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(lt.get_layout, "cublasLtMatrixLayoutGetAttribute");
  find(lt.create_preference, "cublasLtMatmulPreferenceCreate");
  find(lt.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(lt.get_preference, "cublasLtMatmulPreferenceGetAttribute");
  return lt;
}

const CublasLt& cublas_lt() {
  static const CublasLt loaded = [] {
    constexpr int of_build = CUBLAS_VER_MAJOR, other = of_build == 13 ? 12 : 13;
    std::vector<std::string> candidates;
    for (const int major : {of_build, other})
      for (const std::string folder : {"", MXTAPE_CUDA_LIBRARIES "/"})
        candidates.push_back(fmt::format("{}libcublasLt.so.{}", folder, major));
    return load_cublas_lt(candidates);
  }();
  return loaded;
}

}  // namespace mxtape::cuda
