#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mxtape::cpu {

/// While it lives, this thread takes numbers below 2^-126 for zero: bf16 instructions do, and what stands in
/// for them has the same bits.
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool flush) {
    if (flush) set(before_ | flag);
  }
  ~FlushSubnormals() { set(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned flag = 0x8040;  // results and operands
  static void set(unsigned mode) { _mm_setcsr(mode); }
  const unsigned before_ = _mm_getcsr();
#elif defined(__aarch64__)
  static constexpr unsigned flag = 1u << 24;
  static void set(unsigned mode) { __builtin_aarch64_set_fpcr(mode); }
  const unsigned before_ = __builtin_aarch64_get_fpcr();
#endif
};

}  // namespace mxtape::cpu
