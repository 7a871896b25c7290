#pragma once
#include <functional>

#include "dist/devices.h"

namespace mxtape {

/// Does the work of a command that several processes of one run may do together, if a launcher has started
/// several (docs/devices.md): `work` gets the devices, or null where this process is the only one. An error
/// ends all processes, and one of them says why: then this throws Told, or what is to be printed.
void on_all_devices(const std::function<void(Devices*)>& work);

}  // namespace mxtape
