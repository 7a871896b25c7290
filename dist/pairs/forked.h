#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "dist/pairs/channel.h"

namespace mxtape {

/// What a process of a run has of the others on its machine.
struct Forked {
  int rank = 0;
  std::vector<Socket> messages{};   ///< by rank: of rank 0 with each, of the others with rank 0 alone
  std::vector<Socket> tensors{};    ///< by rank: with each other
  std::vector<pid_t> processes{0};  ///< by rank, on rank 0
};

/// Makes this process rank 0 of `size`, and returns in each of them. The others are killed when it ends, in
/// whatever way. A fork has the thread that forked alone, and half of whatever libraries had begun: so this
/// comes before threads, CUDA, HDF5 and files, and fails if there is another thread. Throws
/// Error(resource).
Forked fork_ranks(int size);

/// How a process that this one has forked ended, if it has: "was killed by SIGSEGV".
std::optional<std::string> end_of(pid_t process);

}  // namespace mxtape
