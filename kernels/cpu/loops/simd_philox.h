#pragma once
// For *_loops.cpp only: the Philox4x32-10 of core/random.h, one group of eight 16-bit draws in each 64-bit
// lane.
#include "core/random.h"
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

typedef std::uint64_t u64_lanes __attribute__((vector_size(sizeof(native::f32))));
inline constexpr int groups_per_vector = sizeof(u64_lanes) / sizeof(std::uint64_t);

/// The 64-bit products of b and the lower halves of a's lanes. Compilers take a * b for a full 64-bit
/// product, which costs three times as much.
MXT_LANES u64_lanes wide_product(u64_lanes a, std::uint32_t b) {
#if defined(__AVX512F__)
  return (u64_lanes)_mm512_maskz_mul_epu32(0xff, (__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (u64_lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__SSE2__)
  return (u64_lanes)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
  return (a & 0xffffffffu) * b;
#endif
}

/// a[from], b[from], a[from + 1], b[from + 1] ... as many lanes as fit.
template <int from, class V>
MXT_LANES V interleave(const V& a, const V& b) {
  if constexpr (groups_per_vector == 8)
    return __builtin_shufflevector(a, b, from, from + 8, from + 1, from + 9, from + 2, from + 10, from + 3,
                                   from + 11);
  else if constexpr (groups_per_vector == 4)
    return __builtin_shufflevector(a, b, from, from + 4, from + 1, from + 5);
  else
    return __builtin_shufflevector(a, b, from, from + 2);
}

/// Draws are filled in by so many groups.
inline constexpr int groups_at_once = 2 * groups_per_vector;

/// The eight draws of each of streams * groups_per_vector groups, of which one is `step` after the other.
/// Several vectors are drawn together, so that one's multiplications run while the others' finish.
template <int streams = 2>
MXT_LANES void philox_lanes(std::uint16_t* out, const DrawKey& key, std::uint64_t group, int step = 1) {
  constexpr std::uint64_t lane_index[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const u64_lanes offsets = wide_product(load_as<u64_lanes>(lane_index), std::uint32_t(step));
  u64_lanes c0[streams], c1[streams], c2[streams], c3[streams];
  for (int i = 0; i < streams; ++i) {
    // Words in the lower halves; what is left of products in the upper ones is never looked at.
    c0[i] = offsets + (group + std::uint64_t(i * groups_per_vector) * std::uint64_t(step));
    c1[i] = (c0[i] >> 32 & 0xffffu) | std::uint64_t(key.purpose) << 16;
    c2[i] = u64_lanes{} + key.tensor_id;
    c3[i] = u64_lanes{} + key.step;
  }
  std::uint32_t k0 = std::uint32_t(key.seed), k1 = std::uint32_t(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64_lanes key0 = u64_lanes{} + k0, key1 = u64_lanes{} + k1;
    for (int i = 0; i < streams; ++i) {
      const u64_lanes p0 = wide_product(c0[i], 0xD2511F53u), p1 = wide_product(c2[i], 0xCD9E8D57u);
      c0[i] = p1 >> 32 ^ c1[i] ^ key0;
      c1[i] = p1;
      c2[i] = p0 >> 32 ^ c3[i] ^ key1;
      c3[i] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < streams; ++i) {
    const u64_lanes first = (c0[i] & 0xffffffffu) | c1[i] << 32, second = (c2[i] & 0xffffffffu) | c3[i] << 32;
    store_as(out + 8 * i * groups_per_vector, interleave<0>(first, second));
    store_as(out + (8 * i + 4) * groups_per_vector, interleave<groups_per_vector / 2>(first, second));
  }
}

}  // namespace mxtape::cpu::MXT_TIER
