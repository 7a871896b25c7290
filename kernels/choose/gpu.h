#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/side_stream.h"

namespace mxtape {

/// Throws Error(internal) for a device that has no streams, or for what stands around one.
std::unique_ptr<SideStream> make_side_stream(Backend&);

/// Lets this process use one of the GPUs that it sees: the `local_rank`-th, or the only one. Returns what no
/// other GPU of this host is called. Before the first backend is made. Throws Error(resource) if there are
/// too few.
std::string choose_gpu(int local_rank);

}  // namespace mxtape
