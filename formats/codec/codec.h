#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "formats/element.h"

namespace mxtape {

constexpr bool has_nan(const ElementFormat& f) {
  return f.specials == Specials::nan_only || (f.specials == Specials::ieee && f.mantissa_bits > 0);
}
MXT_HD constexpr std::uint32_t low_bits(int count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// The bits of a number of the format, in the low end: sign, exponent, mantissa; integers in two's
/// complement. The value must be on the grid (what round_element returns); anything else is cut. NaN without
/// a NaN code becomes minus zero (integers: zero), as ml_dtypes; infinity without a code becomes NaN.
MXT_HD constexpr std::uint32_t encode(const ElementFormat& f, float value) {
  const int bits = f.bits(), y = f.mantissa_bits;
  if (f.is_integer()) {
    const float steps = value * power_of_two(-f.unit_exponent);
    return steps >= -0x1p31f && steps < 0x1p31f ? std::uint32_t(std::int32_t(steps)) & low_bits(bits) : 0;
  }
  constexpr std::uint32_t infinity = 0x7f800000u;
  const std::uint32_t magnitude = bits_of(value) & 0x7fffffffu;
  const std::uint32_t sign = bits_of(value) >> 31 << (bits - 1);
  const std::uint32_t top = low_bits(f.exponent_bits) << y;
  if (magnitude > infinity || (magnitude == infinity && f.specials != Specials::ieee)) {
    if (!has_nan(f)) return 1u << (bits - 1);
    // The quiet NaN: all ones where that is the only one, else the highest mantissa bit.
    return sign | top | (f.specials == Specials::nan_only ? low_bits(y) : 1u << (y - 1));
  }
  if (magnitude == infinity) return sign | top;
  const bool subnormal = magnitude < 0x800000u;
  const int own = (subnormal ? 1 : int(magnitude >> 23)) - 127;
  const int exponent = own > f.min_exponent() ? own : f.min_exponent();
  const std::uint32_t significand = (magnitude & 0x7fffffu) | (subnormal ? 0u : 0x800000u);
  const int cut = 23 - y + exponent - own;
  const std::uint32_t steps = cut < 32 ? significand >> cut : 0;
  // Normal numbers have steps >= 2^y, whose leading 1 adds itself to the exponent field.
  return sign | ((std::uint32_t(exponent - f.min_exponent()) << y) + steps);
}

/// The number that a code stands for, exactly. Bits above f.bits() are ignored.
MXT_HD constexpr float decode(const ElementFormat& f, std::uint32_t code) {
  const int bits = f.bits(), y = f.mantissa_bits;
  const std::uint32_t sign = code >> (bits - 1) & 1u;
  const std::uint32_t magnitude = code & low_bits(bits - 1);
  if (f.is_integer()) {
    const auto steps = std::int32_t(magnitude) - std::int32_t(sign << (bits - 1));
    return float(steps) * power_of_two(f.unit_exponent);
  }
  constexpr std::uint32_t infinity = 0x7f800000u, quiet_nan = 0x7fc00000u;
  const std::uint32_t field = magnitude >> y, mantissa = magnitude & low_bits(y);
  const bool on_top = field == low_bits(f.exponent_bits);
  if (f.specials == Specials::ieee && on_top)
    return float_of(sign << 31 | (mantissa == 0 ? infinity : quiet_nan));
  if (f.specials == Specials::nan_only && on_top && mantissa == low_bits(y))
    return float_of(sign << 31 | quiet_nan);
  // With 8 exponent bits it is f32 without its last bits; with fewer, the step is a normal f32.
  if (f.exponent_bits == 8) return float_of(sign << 31 | magnitude << (23 - y));
  const std::uint32_t steps = field == 0 ? mantissa : mantissa | 1u << y;
  const int exponent = f.min_exponent() + (field == 0 ? 0 : int(field) - 1);
  return float_of(sign << 31 | bits_of(float(steps) * power_of_two(exponent - y)));
}

/// All finite numbers of the format, ascending, each once: a zero has no sign here.
std::vector<float> values_of(const ElementFormat&);

/// Codes of power-of-two scales of `bits` exponent bits: E + 2^(bits-1) - 1; all ones is NaN. Powers of two
/// from 2^-127 (whose field in f32 is 0) and NaN only.
MXT_HD constexpr std::uint8_t encode_exponent(float scale, int bits = 8) {
  if (scale != scale) return std::uint8_t(low_bits(bits));
  return std::uint8_t(int(bits_of(scale) >> 23) - 127 + (1 << (bits - 1)) - 1);
}
MXT_HD constexpr float decode_exponent(std::uint8_t code, int bits = 8) {
  if (code == low_bits(bits)) return float_of(0x7fc00000u);
  const int exponent = int(code) - (1 << (bits - 1)) + 1;
  return exponent >= -126 ? power_of_two(exponent) : 0x1p-127f;
}
/// f32 to E8M0 as a number format, upward: 2^127 < x, infinity and NaN become NaN, 0 becomes 2^-127.
std::uint8_t cast_e8m0_up(float x);
/// f32 to E8M0, to nearest with ties up, as ml_dtypes: zero and negative numbers are NaN, and any x above
/// 2^-127 that is subnormal in f32 becomes 2^-126.
std::uint8_t cast_e8m0_nearest(float x);

/// Writes codes of `bits` bits, 32 at most, as one stream, lowest bit first; eight of them are `bits` bytes.
struct CodeWriter {
  std::uint8_t* to;
  int bits;
  std::uint64_t held = 0;
  int waiting = 0;  ///< bits of `held`

  MXT_HD constexpr void put(std::uint32_t code) {
    held |= std::uint64_t(code & low_bits(bits)) << waiting;
    for (waiting += bits; waiting >= 8; waiting -= 8, held >>= 8) *to++ = std::uint8_t(held);
  }
  /// After the last code: the last byte is filled with zeros.
  MXT_HD constexpr void finish() {
    if (waiting > 0) *to = std::uint8_t(held);
  }
};
/// Reads such a stream, and no byte before it is needed.
struct CodeReader {
  const std::uint8_t* from;
  int bits;
  std::uint64_t held = 0;
  int waiting = 0;

  MXT_HD constexpr std::uint32_t take() {
    for (; waiting < bits; waiting += 8) held |= std::uint64_t(*from++) << waiting;
    const std::uint32_t code = std::uint32_t(held) & low_bits(bits);
    held >>= bits;
    waiting -= bits;
    return code;
  }
};

/// Codes of `bits` bits each as one stream, lowest bit first: two FP4 in a byte, the even one in the low
/// nibble; four FP6 in three bytes; FP8 as it is. The last byte is filled with zeros.
std::vector<std::uint8_t> pack_bits(std::span<const std::uint32_t> codes, int bits);
std::vector<std::uint32_t> unpack_bits(std::span<const std::uint8_t> bytes, int bits, std::int64_t count);

}  // namespace mxtape
