#pragma once
#include <cstdint>

#include "core/random.h"

namespace mxtape::cuda {

/// A DrawKey whose step follows a clock in device memory, if `clock` is not null: key.step is then the
/// distance from it.
struct ClockedKey {
  DrawKey key;
  const std::int32_t* clock = nullptr;
};

/// The key as it is now. In kernels only: reads device memory.
MXT_HD DrawKey now(const ClockedKey& clocked) {
  DrawKey key = clocked.key;
  if (clocked.clock) key.step += std::uint32_t(*clocked.clock);
  return key;
}

}  // namespace mxtape::cuda
