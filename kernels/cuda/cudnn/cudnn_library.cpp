#include "kernels/cuda/cudnn/cudnn_library.h"

#include "core/error.h"
#include "kernels/cuda/nvidia_library.h"

namespace mxtape::cuda::cudnn {
namespace {

// Before 9.15.1 backward is wrong at the end of sequences whose length is no multiple of 128, unless the
// graph has a padding mask (NVIDIA/cudnn-frontend, scaled_dot_product_flash_attention.h, "workaround").
constexpr LibraryWish wish{
    .place = "cudnn",
    .product = "cuDNN",
    .version_function = "cudnnGetVersion",
    .oldest = 91501,
    .remedy =
        "install cuDNN 9.15.1 or newer, or put its folder first on LD_LIBRARY_PATH, or use "
        "--compute.attention=own"};

}  // namespace

std::vector<std::string> Library::usual_places() {
  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  return {name, fmt::format("{}/{}", MXTAPE_CUDA_LIBRARIES, name)};
}

Library::Library(const std::vector<std::string>& candidates) {
  const NvidiaLibrary library(wish, candidates);
  version = library_version_text(library.version());
  library.find(get_error_string, "cudnnGetErrorString");
  library.find(get_last_error_string, "cudnnGetLastErrorString");
  library.find(create, "cudnnCreate");
  library.find(destroy, "cudnnDestroy");
  library.find(set_stream, "cudnnSetStream");
  library.find(create_descriptor, "cudnnBackendCreateDescriptor");
  library.find(destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.find(finalize, "cudnnBackendFinalize");
  library.find(set_attribute, "cudnnBackendSetAttribute");
  library.find(get_attribute, "cudnnBackendGetAttribute");
  library.find(execute, "cudnnBackendExecute");
}

std::string Library::last_error(cudnnStatus_t status) const {
  char words[1024] = "";
  get_last_error_string(words, sizeof words);
  return fmt::format("{}{}{}", get_error_string(status), *words ? ": " : "", words);
}

void Library::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  fail(ExitCode::resource, "cudnn {}: {}: {}; --compute.attention=own does without cuDNN", version, what,
       last_error(status));
}

}  // namespace mxtape::cuda::cudnn
