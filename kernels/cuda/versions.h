#pragma once
#include <string>

namespace mxtape::cuda {

/// "13.0": of the runtime that is linked in.
std::string runtime_version();
/// The newest CUDA that the driver runs; empty without a driver. Works on a machine without a GPU.
std::string driver_version();

}  // namespace mxtape::cuda
