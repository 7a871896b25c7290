#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

// A count of the allocations of memory, as a measure of work that no clock disturbs. It replaces operator
// new, so one file of a program may include it.
namespace mxtape::test {

inline std::atomic<std::int64_t> allocations = 0;

}  // namespace mxtape::test

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++mxtape::test::allocations;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
