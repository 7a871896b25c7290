#include "kernels/cuda/nvidia_library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace mxtape::cuda {

NvidiaLibrary::NvidiaLibrary(const LibraryWish& wish, std::span<const std::string> candidates) : wish_(wish) {
  for (const auto& candidate : candidates) {
    if (loaded_) break;
    loaded_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    file_ = candidate;
  }
  require(loaded_, ExitCode::resource, "{}: {} is not installed; looked for {}; {}", wish.place, wish.product,
          fmt::join(candidates, ", "), wish.remedy);
  std::size_t (*version)() = nullptr;
  find(version, wish.version_function);
  version_ = version();
  require(version_ >= wish.oldest, ExitCode::resource, "{}: {} is {} {}; want {} or newer: {}", wish.place,
          file_, wish.product, library_version_text(version_), library_version_text(wish.oldest),
          wish.remedy);
}

void* NvidiaLibrary::address_of(const char* name) const {
  void* const address = dlsym(loaded_, name);
  require(address, ExitCode::resource, "{}: {} has no function {}; {}", wish_.place, file_, name,
          wish_.remedy);
  return address;
}

std::string library_version_text(std::size_t v) {
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace mxtape::cuda
