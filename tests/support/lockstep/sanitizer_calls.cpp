// What -fsanitize=thread makes the compiler call, in place of the library that comes with it: loads and
// stores of kernels go to races.cpp, atomics (reference counts, in code of the host; which, depends on
// compiler and library) are done.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/support/lockstep/races.h"

using mxtape::lockstep::host::note_read;
using mxtape::lockstep::host::note_write;

#define MXTAPE_ACCESSES(bytes)                                        \
  void __tsan_read##bytes(void* p) { note_read(p, bytes); }           \
  void __tsan_write##bytes(void* p) { note_write(p, bytes); }         \
  void __tsan_unaligned_read##bytes(void* p) { note_read(p, bytes); } \
  void __tsan_unaligned_write##bytes(void* p) { note_write(p, bytes); }

#define MXTAPE_ATOMICS(bits, T)                                                                           \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                                             \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* old, T v, int, int) {               \
    return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* old, T v, int, int) {                 \
    return __atomic_compare_exchange_n(p, old, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, std::size_t bytes) { note_read(p, bytes); }
void __tsan_write_range(void* p, std::size_t bytes) { note_write(p, bytes); }
MXTAPE_ACCESSES(1)
MXTAPE_ACCESSES(2)
MXTAPE_ACCESSES(4)
MXTAPE_ACCESSES(8)
MXTAPE_ACCESSES(16)

// Longer copies are calls of the C library, which the linker sends here (--wrap); newer clang has own names.
void* __real_memcpy(void*, const void*, std::size_t);
void* __real_memmove(void*, const void*, std::size_t);
void* __real_memset(void*, int, std::size_t);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  note_read(from, bytes);
  note_write(to, bytes);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  note_read(from, bytes);
  note_write(to, bytes);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  note_write(to, bytes);
  return __real_memset(to, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) { return std::memcpy(to, from, bytes); }
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) { return std::memmove(to, from, bytes); }
void* __tsan_memset(void* to, int value, std::size_t bytes) { return std::memset(to, value, bytes); }

MXTAPE_ATOMICS(8, std::uint8_t)
MXTAPE_ATOMICS(32, std::uint32_t)
MXTAPE_ATOMICS(64, std::uint64_t)
}
