#pragma once
#include <functional>
#include <string>

#include "dist/group.h"

namespace mxtape {

/// What a launcher's variables say of this process: of several, MPI knows the others.
struct Launch {
  Place place;       ///< rank, size and local_rank as named; local_size where it is said, else 1
  std::string note;  ///< for people, where something may surprise
};

using Variables = std::function<const char*(const char*)>;  ///< std::getenv, or a test's

/// Reads the variables, those of the innermost launcher first: Open MPI's, MPICH's, srun's. Throws
/// Error(usage) for a part of such a set, for numbers that do not fit together, with what was seen, and for
/// processes that cannot find each other: each would train alone.
Launch read_launch(const Variables&);

/// Seconds that a process waits for another one in a step: MXTAPE_PEER_TIMEOUT, 300 if it is not set. Throws
/// Error(usage).
double peer_timeout(const Variables&);

}  // namespace mxtape
