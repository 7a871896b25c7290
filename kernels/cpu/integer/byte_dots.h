#pragma once
// For integer_dots.cpp only: t += the dot products of four codes of each of sixteen lines with four codes of
// one line, exactly, by what the instruction set has.
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/cpu/loops/simd.h"

#if defined(__AVX2__) || defined(__aarch64__)  // other machines take the portable loop
namespace mxtape::cpu::MXT_TIER {

/// a * b + c, rounded once.
MXT_LANES native::f32 multiply_add(const native::f32& a, const native::f32& b, const native::f32& c) {
#if defined(__AVX512F__)
  return (native::f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (native::f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return (native::f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}
template <class V>
MXT_LANES Pair<V> multiply_add(const Pair<V>& a, const Pair<V>& b, const Pair<V>& c) {
  return {multiply_add(a.lo, b.lo, c.lo), multiply_add(a.hi, b.hi, c.hi)};
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// The instruction takes bytes without a sign on one side: 128 is added to that side's codes, and 128 times
// the sum of the other side's taken from the sum.
inline constexpr int excess = 128;
using Lines = u32x16;
MXT_LANES Lines as_lines(const u32x16& codes) { return codes ^ 0x80808080u; }
#else
inline constexpr int excess = 0;
using Lines = i32x16;
MXT_LANES Lines as_lines(const u32x16& codes) { return as_signed(codes); }
#endif

#if defined(__AVX512VNNI__)
MXT_LANES i32x16 add_products(const i32x16& t, const Lines& unsigned_codes, const i32x16& codes) {
  return (i32x16)_mm512_dpbusd_epi32((__m512i)t, (__m512i)unsigned_codes, (__m512i)codes);
}
#elif defined(__AVXVNNI__)
MXT_LANES native::i32 add_products(const native::i32& t, const native::u32& lines, const native::i32& codes) {
  return (native::i32)_mm256_dpbusd_avx_epi32((__m256i)t, (__m256i)lines, (__m256i)codes);
}
#elif defined(__AVX2__)
// |a| and b with a's sign: a pair of products is at most 2 * 127^2 < 2^15, so that no sum saturates.
MXT_LANES native::i32 add_products(const native::i32& t, const native::i32& a, const native::i32& b) {
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)a), _mm256_sign_epi8((__m256i)b, (__m256i)a));
  return t + (native::i32)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
MXT_LANES native::i32 add_products(const native::i32& t, const native::i32& lines, const native::i32& codes) {
  const auto a = (int8x16_t)lines, b = (int8x16_t)codes;
#if defined(__ARM_FEATURE_DOTPROD)
  return (native::i32)vdotq_s32((int32x4_t)t, a, b);
#else
  // Pairs, at most 2 * 127^2 < 2^15, then pairs of those.
  const int16x8_t pairs = vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
  return (native::i32)vpadalq_s16((int32x4_t)t, pairs);
#endif
}
#endif
template <class V, class Codes>
MXT_LANES Pair<V> add_products(const Pair<V>& t, const Pair<Codes>& lines, const Pair<V>& codes) {
  return {add_products(t.lo, lines.lo, codes.lo), add_products(t.hi, lines.hi, codes.hi)};
}

}  // namespace mxtape::cpu::MXT_TIER
#endif
