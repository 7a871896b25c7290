#pragma once
#include <cublasLt.h>

#include <span>
#include <string>

namespace mxtape::cuda {

/// cuBLASLt's functions, looked up in a library that is loaded at run time; the header alone is needed to
/// build. Reference: the cuBLAS library's documentation, chapter cuBLASLt API.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_attribute;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) algorithm_capability;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatmulDescGetAttribute) get_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutGetAttribute) get_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceGetAttribute) get_preference;
  std::string version;  ///< "13.1.0"

  /// Throws Error(resource) with the status' name if a call failed.
  void check(cublasStatus_t, const char* what) const;
};

/// Loads the first of `candidates` (names for the system's search, or paths) that can be loaded. Throws
/// Error(resource) if none can, or if it is older than 12.8, the first release that knows every
/// architecture of the build list.
CublasLt load_cublas_lt(std::span<const std::string> candidates);

/// The library of this process, loaded once: of the major version of the build first, where the system looks
/// (LD_LIBRARY_PATH, then its cache), then in the toolkit of the build.
const CublasLt& cublas_lt();

}  // namespace mxtape::cuda
