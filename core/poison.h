#pragma once
#include <cstddef>
#include <cstdint>
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>  // its macros do nothing in builds without the sanitizer
#endif

namespace mxtape {

/// Tells the address sanitizer that only the first `used` of a block's `bytes` may be touched: it cannot know
/// by itself who has memory that is recycled without free().
inline void poison_after([[maybe_unused]] void* block, [[maybe_unused]] std::int64_t used,
                         [[maybe_unused]] std::int64_t bytes) {
#ifdef ASAN_POISON_MEMORY_REGION
  ASAN_UNPOISON_MEMORY_REGION(block, std::size_t(used));
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(block) + used, std::size_t(bytes - used));
#endif
}

}  // namespace mxtape
