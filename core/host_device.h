#pragma once
#include <cstdint>

// always_inline: a weak out-of-line copy from a file built for AVX-512 could otherwise be picked by the
// linker for everyone, and crash on machines without it.
#ifdef __CUDACC__
#define MXT_HD [[gnu::always_inline]] inline __host__ __device__
#else
#define MXT_HD [[gnu::always_inline]] inline
#endif

namespace mxtape {

MXT_HD constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
MXT_HD constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// 2^e for e in [-126, 127].
MXT_HD constexpr float power_of_two(int e) { return float_of(std::uint32_t(e + 127) << 23); }

}  // namespace mxtape
