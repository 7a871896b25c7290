#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/backend_options.h"
#include "kernels/side_stream.h"

namespace mxtape {

/// The device that choose_cuda_gpu() chose, else the first one that the environment shows. Throws
/// Error(resource) if there is none that can be used: no driver, a driver too old, no kernels for the card,
/// cuBLAS missing.
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& = {});

/// kernels/choose/gpu.h
std::unique_ptr<SideStream> make_cuda_side_stream(Backend&);
std::string choose_cuda_gpu(int local_rank);

namespace cuda {
/// "13.0": of the runtime that is linked in.
std::string runtime_version();
/// The newest CUDA that the driver runs; empty without a driver. Works on a machine without a GPU.
std::string driver_version();
}  // namespace cuda

}  // namespace mxtape
