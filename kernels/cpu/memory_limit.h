#pragma once
#include <cstdint>

namespace mxtape::cpu {

/// The memory that this process may have: what the machine has, the limits of its control groups (memory.max
/// of version 2, memory.limit_in_bytes of version 1, those of the groups above it too), and what its own
/// limits (ulimit -v, ulimit -d) leave beside what it has mapped.
std::int64_t memory_limit();

}  // namespace mxtape::cpu
