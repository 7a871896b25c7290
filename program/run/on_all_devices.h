#pragma once
#include <functional>

#include "dist/devices.h"

namespace mxtape {

/// Does the work of a command that several processes of one run may do together (docs/devices.md): those that
/// mpirun or srun has started, or this one and what it forks, `wanted` in all (0: not said). So it comes
/// before anything else. `work` gets the devices, or null where this process is the only one. An error ends
/// all processes, and one of them says why: then this throws SaidElsewhere, or what is to be printed.
void on_all_devices(int wanted, const std::function<void(Devices*)>& work);

}  // namespace mxtape
