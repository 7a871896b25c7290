#pragma once
// For integer_dots.cpp only: t += the dot products of four codes of each of sixteen lines with four codes of
// one line, exactly, by what the instruction set has.
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

/// Codes plus 8 or 16, where they are not below -8 or -16: no byte of a word carries.
template <std::uint32_t more>
MXT_LANES u32x16 codes_plus(const u32x16& codes) {
  return (codes ^ 0x80808080u) - (0x80 - more) * 0x01010101u;
}

#if defined(__AVX2__) || defined(__aarch64__)  // other machines take the portable loop
// Where the instruction takes bytes without a sign on one side, `excess` is added to that side's codes, and
// `excess` times the sum of the other side's taken from the sum.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
inline constexpr int excess = 128;
using Lines = u32x16;
MXT_LANES Lines as_lines(const u32x16& codes, bool) { return codes ^ 0x80808080u; }
#elif defined(__AVX2__)
inline constexpr int excess = 16;  // for add_small_products() alone
using Lines = i32x16;
MXT_LANES Lines as_lines(const u32x16& codes, bool small) {
  return as_signed(small ? codes_plus<excess>(codes) : codes);
}
#else
inline constexpr int excess = 0;
using Lines = i32x16;
MXT_LANES Lines as_lines(const u32x16& codes, bool) { return as_signed(codes); }
#endif
inline constexpr bool has_small_products = excess == 16;

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
/// Of codes up to 16, and 16 more in the lines: t's halves sum up to 8 pairs of products, at most 2^13.
MXT_LANES i32x16 add_small_products(const i32x16& t, const i32x16& lines, const i32x16& codes) {
  const auto add = [](native::i32 sums, native::i32 a, native::i32 b) {
    sums = (native::i32)_mm256_add_epi16((__m256i)sums, _mm256_maddubs_epi16((__m256i)a, (__m256i)b));
    asm("" : "+x"(sums));  // g++ 12 would compute all products before it adds any, and spill them
    return sums;
  };
  return {add(t.lo, lines.lo, codes.lo), add(t.hi, lines.hi, codes.hi)};
}
MXT_LANES i32x16 add_halves(const i32x16& t) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {(native::i32)_mm256_madd_epi16((__m256i)t.lo, ones),
          (native::i32)_mm256_madd_epi16((__m256i)t.hi, ones)};
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

#endif

}  // namespace mxtape::cpu::MXT_TIER
