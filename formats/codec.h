#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "formats/element.h"

namespace mxtape {

/// The bits of a number of the format, in the low end: sign, exponent, mantissa; integers in two's
/// complement. The value must be on the grid (what round_element returns); anything else is cut. NaN without
/// a NaN code becomes minus zero (integers: zero), as ml_dtypes; infinity without a code becomes NaN.
std::uint32_t encode(const ElementFormat& f, float value);
/// The number that a code stands for, exactly. Bits above f.bits() are ignored.
float decode(const ElementFormat& f, std::uint32_t code);
bool has_nan(const ElementFormat& f);

/// Codes of power-of-two scales of `bits` exponent bits: E + 2^(bits-1) - 1; all ones is NaN. Powers of two
/// and NaN only.
std::uint8_t encode_exponent(float scale, int bits = 8);
float decode_exponent(std::uint8_t code, int bits = 8);
/// f32 to E8M0 as a number format, upward: 2^127 < x, infinity and NaN become NaN, 0 becomes 2^-127.
std::uint8_t cast_e8m0_up(float x);
/// f32 to E8M0, to nearest with ties up, as ml_dtypes: zero and negative numbers are NaN, and any x above
/// 2^-127 that is subnormal in f32 becomes 2^-126.
std::uint8_t cast_e8m0_nearest(float x);

/// Codes of `bits` bits each as one stream, lowest bit first: two FP4 in a byte, the even one in the low
/// nibble; four FP6 in three bytes; FP8 as it is. The last byte is filled with zeros.
std::vector<std::uint8_t> pack_bits(std::span<const std::uint32_t> codes, int bits);
std::vector<std::uint32_t> unpack_bits(std::span<const std::uint8_t> bytes, int bits, std::int64_t count);

}  // namespace mxtape
