#pragma once
#include "data/hdf5/token_file.h"
#include "dist/devices.h"
#include "kernels/backend.h"

namespace mxtape {

/// What a process other than rank 0 does in a run: what rank 0's Trainer announces, to the end. It prints and
/// writes nothing. `device`: null for the one that rank 0's recipe names. Returns when the run is done;
/// throws SaidElsewhere when rank 0 ends it otherwise.
void follow(Devices&, const TokenFile&, Backend* device = nullptr);

}  // namespace mxtape
