#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace mxtape {

/// What a device may do beyond its kernels. A device that cannot do something ignores it: recipes say so.
struct BackendOptions {
  bool graph = true;  ///< record work that repeats, and launch it as one
};

/// "cpu", "cuda". Throws Error(usage) for devices that this build does not have, naming those it has.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& = {});

}  // namespace mxtape
