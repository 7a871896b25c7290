#pragma once
// For *_pairs.cpp only: words of two bf16, and what is loaded and stored where a matrix ends.
#include "kernels/cpu/loops/simd_round.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu::MXT_TIER {

/// -1 in the first n lanes.
MXT_LANES i32x16 first_lanes(std::int64_t n) { return lane_numbers() < std::int32_t(n < lanes ? n : lanes); }

// AMX adds up first and second numbers apart, so there the first may stay below, where it lies in memory.
#if defined(MXT_AMX)
inline constexpr bool first_is_below = true;
#else
inline constexpr bool first_is_below = false;
#endif
/// Words of neighbours as they lie in memory.
template <class V>
MXT_LANES V first_above(const V& w) {
  return first_is_below ? w : w << 16 | w >> 16;
}
/// Words of numbers in lower halves.
MXT_LANES u32x16 paired(const u32x16& first, const u32x16& second) {
  return first_is_below ? first | second << 16 : first << 16 | second;
}

MXT_LANES void store_lower(Word* to, const u32x16& w) {
#if defined(__AVX512F__)
  store_as(to, __builtin_shufflevector(w, w, 0, 1, 2, 3, 4, 5, 6, 7));
#else
  store_as(to, w.lo);
#endif
}

#if defined(__AVX512BF16__)
/// Pairs (a[i], b[i]), each number rounded to bf16: to nearest, ties to even; 0 below 2^-126.
MXT_LANES u32x16 pairs_of(const f32x16& a, const f32x16& b) {
  const __m512i order = _mm512_set_epi16(15, 31, 14, 30, 13, 29, 12, 28, 11, 27, 10, 26, 9, 25, 8, 24, 7, 23,
                                         6, 22, 5, 21, 4, 20, 3, 19, 2, 18, 1, 17, 0, 16);
  const __m512 above = (__m512)(first_is_below ? b : a), below = (__m512)(first_is_below ? a : b);
  return (u32x16)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(below, above));
}
/// The same of neighbours: the numbers of a, then those of b ...
MXT_LANES u32x16 joined(const f32x16& a, const f32x16& b) {
  return first_above((u32x16)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
}
/// ... or those of v alone.
MXT_LANES void store_pairs(Word* to, const f32x16& v) {
  typedef Word words __attribute__((vector_size(lanes * sizeof(Word) / 2)));
  store_as(to, first_above((words)_mm512_cvtneps_pbh((__m512)v)));
}
#else
/// In the upper halves.
MXT_LANES u32x16 rounded(const f32x16& v) {
  const i32x16 is_small = as_signed(bits(v) & 0x7fffffffu) < 0x00800000;
  return select(is_small, bits(v) & 0x80000000u, nearest_bf16(bits(v))) & 0xffff0000u;
}
MXT_LANES u32x16 pairs_of(const f32x16& a, const f32x16& b) { return rounded(a) | rounded(b) >> 16; }
MXT_LANES u32x16 joined(const f32x16& a, const f32x16& b) {
#if defined(__AVX512F__)
  const u32x16 upper = as_unsigned(lane_numbers()) * 0x40004u + 0x30001u;  // 16-bit places 1, 3, 5 ...
  return first_above(
      (u32x16)_mm512_permutex2var_epi16((__m512i)rounded(a), (__m512i)upper, (__m512i)rounded(b)));
#else
  std::uint16_t halves[2 * lanes] = {};
  store_upper(halves, rounded(a)), store_upper(halves + lanes, rounded(b));
  return first_above(load_as<u32x16>(halves));
#endif
}
MXT_LANES void store_pairs(Word* to, const f32x16& v) { store_lower(to, joined(v, f32x16{})); }
#endif

#if defined(__AVX512F__)
/// Blocks of words beside the diagonal change places.
template <int block>
MXT_LANES void exchange(u32x16 (&w)[lanes]) {
  const i32x16 lane = lane_numbers(), right = (lane & block) != 0;
  const i32x16 upper = select(right, lane + (lanes - block), lane);
  const i32x16 lower = select(right, lane + lanes, lane + block);
  for (int i = 0; i < lanes; ++i) {
    if (i & block) continue;
    const __m512i a = (__m512i)w[i], b = (__m512i)w[i + block];
    w[i] = (u32x16)_mm512_permutex2var_epi32(a, (__m512i)upper, b);
    w[i + block] = (u32x16)_mm512_permutex2var_epi32(a, (__m512i)lower, b);
  }
}
#endif
/// From [row][column] to [column][row].
MXT_LANES void transpose(u32x16 (&w)[lanes]) {
#if defined(__AVX512F__)
  exchange<8>(w), exchange<4>(w), exchange<2>(w), exchange<1>(w);
#else
  constexpr int quad = 4;
  std::uint32_t from[lanes][lanes], to[lanes][lanes];
  for (int i = 0; i < lanes; ++i) store_as(from[i], w[i]);
  for (int i = 0; i < lanes; i += quad)
    for (int j = 0; j < lanes; j += quad) {
      i32x4 block[quad];
      for (int k = 0; k < quad; ++k) block[k] = load_as<i32x4>(&from[i + k][j]);
      transpose(block);
      for (int k = 0; k < quad; ++k) store_as(&to[j + k][i], block[k]);
    }
  for (int i = 0; i < lanes; ++i) w[i] = load_as<u32x16>(to[i]);
#endif
}

}  // namespace mxtape::cpu::MXT_TIER
