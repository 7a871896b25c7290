#pragma once
#include <memory>

#include "kernels/choose/make_backend.h"

namespace mxtape {

/// The CUDA backend with its kernels run on the host: lockstep.h.
std::unique_ptr<Backend> make_lockstep_backend(const BackendOptions& = {});

}  // namespace mxtape
