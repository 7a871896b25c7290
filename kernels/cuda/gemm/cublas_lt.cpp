#include "kernels/cuda/gemm/cublas_lt.h"

#include <vector>

#include "core/error.h"
#include "kernels/cuda/nvidia_library.h"

namespace mxtape::cuda {
namespace {

constexpr LibraryWish wish{
    .place = "cuda",
    .product = "cuBLASLt",
    .version_function = "cublasLtGetVersion",
    .oldest = 120800,
    .remedy =
        "install CUDA 12.8 or newer (libcublas), or put its libraries first on LD_LIBRARY_PATH, or use "
        "the device cpu"};
static_assert(CUBLAS_VERSION >= wish.oldest, "cublasLt.h is older than 12.8");

}  // namespace

void CublasLt::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail(ExitCode::resource, "cuda: cuBLASLt {}: {}: {}; the last checkpoint is intact", version, what,
       status_name(status));
}

CublasLt load_cublas_lt(std::span<const std::string> candidates) {
  const NvidiaLibrary library(wish, candidates);
  CublasLt lt{};
  lt.version = library_version_text(library.version());
  library.find(lt.create, "cublasLtCreate");
  library.find(lt.destroy, "cublasLtDestroy");
  library.find(lt.status_name, "cublasLtGetStatusName");
  library.find(lt.matmul, "cublasLtMatmul");
  library.find(lt.choose, "cublasLtMatmulAlgoGetHeuristic");
  library.find(lt.algorithm_attribute, "cublasLtMatmulAlgoConfigGetAttribute");
  library.find(lt.algorithm_capability, "cublasLtMatmulAlgoCapGetAttribute");
  library.find(lt.create_operation, "cublasLtMatmulDescCreate");
  library.find(lt.destroy_operation, "cublasLtMatmulDescDestroy");
  library.find(lt.set_operation, "cublasLtMatmulDescSetAttribute");
  library.find(lt.get_operation, "cublasLtMatmulDescGetAttribute");
  library.find(lt.create_layout, "cublasLtMatrixLayoutCreate");
  library.find(lt.destroy_layout, "cublasLtMatrixLayoutDestroy");
  library.find(lt.get_layout, "cublasLtMatrixLayoutGetAttribute");
  library.find(lt.create_preference, "cublasLtMatmulPreferenceCreate");
  library.find(lt.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  library.find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  library.find(lt.get_preference, "cublasLtMatmulPreferenceGetAttribute");
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
