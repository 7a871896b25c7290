#pragma once
#include "data/hdf5/token_file.h"
#include "dist/devices.h"

namespace mxtape {

/// What a process other than rank 0 does in a run: what rank 0's Trainer announces, to the end. It prints and
/// writes nothing. A signal that it gets is reported to rank 0, which stops the run. Returns when the run is
/// done; throws Told when rank 0 ends it otherwise.
void follow(Devices&, const TokenFile&);

/// Rank 0's side: the signals that the others report count as its own.
void hear_signals(Devices&);

}  // namespace mxtape
