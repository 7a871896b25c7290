#include "kernels/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <type_traits>

#include "core/error.h"

namespace mxtape::cuda::cudnn {
namespace {

// Before it, backward is wrong at the end of sequences whose length is no multiple of 128, unless the graph
// has a padding mask (NVIDIA/cudnn-frontend, scaled_dot_product_flash_attention.h, "workaround").
constexpr std::size_t oldest_version = 91501;

std::string version_text(std::size_t v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); }

}  // namespace

std::vector<std::string> Library::usual_places() {
  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  return {name, fmt::format("{}/{}", MXTAPE_CUDA_LIBRARIES, name)};
}

Library::Library(const std::vector<std::string>& candidates) {
  void* loaded = nullptr;
  std::string file;
  for (const auto& candidate : candidates) {
    if (loaded) break;
    loaded = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    file = candidate;
  }
  require(loaded, ExitCode::resource,
          "cudnn: not installed; looked for {}. Install cuDNN {} or newer, or put its folder on "
          "LD_LIBRARY_PATH, or use --compute.attention=own",
          fmt::join(candidates, ", "), version_text(oldest_version));
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(loaded, name));
    require(function, ExitCode::resource,
            "cudnn: {} has no function {}; install cuDNN {} or newer, or use --compute.attention=own", file,
            name, version_text(oldest_version));
  };
  find(get_version, "cudnnGetVersion");
  require(get_version() >= oldest_version, ExitCode::resource,
          "cudnn: {} is version {}; want {} or newer, or use --compute.attention=own", file,
          version_text(get_version()), version_text(oldest_version));
  version = version_text(get_version());
  find(get_error_string, "cudnnGetErrorString");
  find(get_last_error_string, "cudnnGetLastErrorString");
  find(create, "cudnnCreate");
  find(destroy, "cudnnDestroy");
  find(set_stream, "cudnnSetStream");
  find(create_descriptor, "cudnnBackendCreateDescriptor");
  find(destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(finalize, "cudnnBackendFinalize");
  find(set_attribute, "cudnnBackendSetAttribute");
  find(get_attribute, "cudnnBackendGetAttribute");
  find(execute, "cudnnBackendExecute");
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
