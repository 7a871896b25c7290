#pragma once
#include <memory>

#include "kernels/backend.h"
#include "kernels/side_stream.h"

namespace mxtape::lockstep::host {

/// When the work of a side stream, which has a priority, is done, where no event orders it with the others'.
enum class SideWork {
  at_once,  ///< as all other work
  early,    ///< before all that it does not wait for: other streams' work is done when somebody waits for it
  late      ///< when somebody waits for it
};
/// From now on, for streams that are made later.
void set_side_work(SideWork);

}  // namespace mxtape::lockstep::host

namespace mxtape {

/// kernels/side_stream.h of the CUDA backend that is run on the host.
std::unique_ptr<SideStream> make_lockstep_side_stream(Backend&);
std::string choose_lockstep_gpu(int local_rank);

}  // namespace mxtape
