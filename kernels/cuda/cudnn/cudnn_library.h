#pragma once
#include <cudnn_backend.h>

#include <string>
#include <vector>

namespace mxtape::cuda::cudnn {

/// cuDNN's backend API, looked up in a library that is loaded at run time. The functions have the names and
/// types of the headers, less the prefix.
struct Library {
  /// Loads the first of `candidates` (names for the system's search, or paths) that can be loaded. Throws
  /// Error(resource) if none can, or if it is older than 9.15.1.
  explicit Library(const std::vector<std::string>& candidates = usual_places());
  /// Where the system looks (LD_LIBRARY_PATH, then its cache), then in the toolkit of the build.
  static std::vector<std::string> usual_places();

  /// Throws Error(resource) with cuDNN's own words if a call failed.
  void check(cudnnStatus_t status, const char* what) const;
  std::string last_error(cudnnStatus_t status) const;  ///< cuDNN's own words

  decltype(&cudnnGetErrorString) get_error_string;
  decltype(&cudnnGetLastErrorString) get_last_error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendExecute) execute;
  std::string version;  ///< "9.19.0"
};

}  // namespace mxtape::cuda::cudnn
