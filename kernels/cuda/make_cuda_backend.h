#pragma once
#include <memory>

#include "kernels/choose/make_backend.h"

namespace mxtape {

/// The first CUDA device that the environment shows. Throws Error(resource) if there is none that can be
/// used: no driver, a driver too old, no kernels for the card, cuBLAS missing.
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& = {});

}  // namespace mxtape
