#pragma once
// For *_loops.cpp only: codes of a few bits in registers, and what they stand for.
#include "kernels/cpu/loops/float_numbers.h"
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

using native::u64;
using native::u8;

inline constexpr int width = sizeof(u8);  ///< codes in a register

/// A number that the compiler may know.
template <int n>
using Known = std::integral_constant<int, n>;

MXT_LANES constexpr std::uint64_t low(int bits) { return (std::uint64_t{1} << bits) - 1; }
/// `pattern` in each of the fields of `field` bits.
MXT_LANES constexpr std::uint64_t in_each(int field, std::uint64_t pattern) {
  std::uint64_t all = 0;
  for (int at = 0; at < 64; at += field) all |= pattern << at;
  return all;
}

/// Eight bytes of `bits` bits each to the low end of a word: neighbours of 1, 2 and 4 bytes are joined.
template <class Bits>
MXT_LANES u64 squeezed(u64 w, Bits bits) {
  w = (w & in_each(16, 0xff)) | (w & in_each(16, 0xff00)) >> (8 - bits);
  w = (w & in_each(32, 0xffff)) | (w & in_each(32, 0xffff0000)) >> (16 - 2 * bits);
  return (w & low(32)) | (w & ~low(32)) >> (32 - 4 * bits);
}
/// The other way.
template <class Bits>
MXT_LANES u64 spread(u64 w, Bits bits) {
  w = (w & low(4 * bits)) | (w & (low(4 * bits) << (4 * bits))) << (32 - 4 * bits);
  w = (w & in_each(32, low(2 * bits))) | (w & in_each(32, low(2 * bits) << (2 * bits))) << (16 - 2 * bits);
  return (w & in_each(16, low(bits))) | (w & in_each(16, low(bits) << bits)) << (8 - bits);
}

/// The codes of a register of bytes to memory, and back.
template <class Bits>
MXT_LANES void put(std::uint8_t* y, const u8& codes, Bits bits) {
  const u64 w = squeezed((u64)codes, bits);
  if (bits == 4) return store_as(y, __builtin_convertvector(w, native::half_u32));
  std::uint64_t words[width / 8];
  std::memcpy(words, &w, sizeof words);
  for (int i = 0; i < width / 8; ++i) std::memcpy(y + i * bits, &words[i], std::size_t(bits));
}
template <class Bits>
MXT_LANES u8 take(const std::uint8_t* x, Bits bits) {
  u64 w;
  if (bits == 4) {
    w = __builtin_convertvector(load_as<native::half_u32>(x), u64);
  } else {
    std::uint64_t words[width / 8] = {};
    for (int i = 0; i < width / 8; ++i) std::memcpy(&words[i], x + i * bits, std::size_t(bits));
    std::memcpy(&w, words, sizeof words);
  }
  return (u8)spread(w, bits);
}

inline constexpr std::uint32_t nan_field = 255;
/// 2^(field - 127), NaN for nan_field: scales as E8M0 holds them.
MXT_LANES f32x16 power_of_field(const u32x16& field) {
  const u32x16 unusual = u32x16{} + 0x400000u, power = field << 23;
  const u32x16 normal = select(as_signed(field) == int(nan_field), power | unusual, power);
  return floats(select(as_signed(field) == 0, unusual, normal));
}

MXT_LANES f32x16 power(int exponent) { return all(__builtin_ldexpf(1, exponent)); }

/// A float format's constants in all lanes.
struct Grid16 {
  int mantissa;
  u32x16 below_first;  ///< what the code lacks of f32's exponent and mantissa
  f32x16 steps, step;  ///< of numbers below the normal ones, and their inverse
  f32x16 normal;       ///< the first normal number
  f32x16 largest;

  MXT_LANES Grid16 of(const FloatNumbers& f) {
    return {f.mantissa_bits,
            u32x16{} + (std::uint32_t(f.min_exponent + 126) << f.mantissa_bits),
            power(f.mantissa_bits - f.min_exponent),
            power(f.min_exponent - f.mantissa_bits),
            power(f.min_exponent),
            all(f.largest)};
  }
  /// Of a number of the grid, without its sign. Infinity is the largest number.
  [[gnu::always_inline]] u32x16 code_of(const f32x16& value) const {
    const f32x16 positive = min(magnitude(value), largest);
    const u32x16 low_code = as_unsigned(to_ints(positive * steps));
    return select(positive < normal, low_code,
                  (bits(positive) >> (23u - std::uint32_t(mantissa))) - below_first);
  }
  [[gnu::always_inline]] f32x16 value_of(const u32x16& code) const {
    const f32x16 high = floats((code + below_first) << (23u - std::uint32_t(mantissa)));
    return select(as_signed(code) < (1 << mantissa), to_floats(as_signed(code)) * step, high);
  }
};

}  // namespace mxtape::cpu::MXT_TIER
