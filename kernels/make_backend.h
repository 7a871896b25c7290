#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace mxtape {

/// "cpu". Throws Error(usage) for devices that this build does not have, naming those it has.
std::unique_ptr<Backend> make_backend(const std::string& device);

}  // namespace mxtape
