#pragma once
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/host_device.h"

namespace mxtape {

/// The number of an IEEE 754 binary16 by its bits; every one is an f32. NaN keeps its payload.
constexpr float f32_of_half(std::uint16_t bits) {
  constexpr std::uint32_t exponents = 0x7c00u << 13, rebias = (127u - 15u) << 23;
  const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
  const std::uint32_t shifted = std::uint32_t(bits & 0x7fffu) << 13, exponent = shifted & exponents;
  std::uint32_t magnitude = shifted + rebias;
  if (exponent == exponents)
    magnitude += rebias;   // infinity, NaN
  else if (exponent == 0)  // subnormal: an f32 with one more in the exponent, less that one
    magnitude = bits_of(float_of(magnitude + (1u << 23)) - float_of(rebias + (1u << 23)));
  return float_of(sign | magnitude);
}

/// The bits of the nearest binary16, ties to even; none if that is beyond 65504, the largest, or NaN.
inline std::optional<std::uint16_t> half_of_f32(float x) {
  constexpr float beyond = 65520;  // halfway between 65504 and what would be next: a tie goes up
  const std::uint32_t sign = bits_of(x) >> 16 & 0x8000u;
  const float magnitude = std::fabs(x);
  if (!(magnitude < beyond)) return {};
  constexpr float least_normal = 0x1p-14f;
  if (magnitude < least_normal)  // a multiple of 2^-24: the sum's last place
    return std::uint16_t(sign | (bits_of(magnitude + 0.5f) - bits_of(0.5f)));
  const std::uint32_t bits = bits_of(magnitude);
  const std::uint32_t rounded = bits + 0xfffu + (bits >> 13 & 1u);
  return std::uint16_t(sign | ((rounded - ((127u - 15u) << 23)) >> 13));
}

}  // namespace mxtape
