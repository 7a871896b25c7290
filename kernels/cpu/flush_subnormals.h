#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mxtape::cpu {

/// While it lives, this thread takes numbers below 2^-126 for zero: bf16 instructions do, and what stands in
/// for them has the same bits.
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool flush) { set(flush ? before_ | flag : before_); }
  ~FlushSubnormals() { set(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;

 private:
  using Mode = unsigned long;
#if defined(__x86_64__)
  static constexpr Mode flag = 0x8040;  // results and operands
  static void set(Mode mode) { _mm_setcsr(unsigned(mode)); }
  static Mode get() { return _mm_getcsr(); }
#elif defined(__aarch64__)
  static constexpr Mode flag = 1ul << 24;
  static void set(Mode mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
  static Mode get() {
    Mode mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
#endif
  const Mode before_ = get();
};

}  // namespace mxtape::cpu
