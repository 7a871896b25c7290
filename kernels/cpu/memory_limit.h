#pragma once
#include <cstdint>

namespace mxtape::cpu {

/// The memory that this process may have: a share, with so many `sharing`, of what the machine has and of the
/// limits of its control groups (memory.max of version 2, memory.limit_in_bytes of version 1, those of the
/// groups above it too), and what its own limits (ulimit -v, ulimit -d) leave beside what it has mapped.
std::int64_t memory_limit(int sharing = 1);

}  // namespace mxtape::cpu
