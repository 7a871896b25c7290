#pragma once
#include <functional>
#include <string>

namespace mxtape {

/// What a launcher's variables say: of several processes, MPI knows the places.
struct Launch {
  int size = 1;            ///< processes that it has started
  std::string launcher{};  ///< "Open MPI's mpirun"
  std::string note{};      ///< for people, where something may surprise
};

using Variables = std::function<const char*(const char*)>;  ///< std::getenv, or a test's

/// Reads the variables, those of the innermost launcher first: Open MPI's, MPICH's, srun's. Throws
/// Error(usage) for what does not fit together, with what was seen, and for processes that cannot find each
/// other: each would train alone.
Launch read_launch(const Variables&);

/// This process's rank as a launcher's variables name it, whether they fit together or not; else 0.
int named_rank(const Variables&);

/// Seconds that a process waits for another one in a step: MXTAPE_PEER_TIMEOUT, 300 if it is not set. Throws
/// Error(usage).
double peer_timeout(const Variables&);

}  // namespace mxtape
