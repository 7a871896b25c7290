#pragma once
#include "core/host_device.h"

namespace mxtape {

/// The upper half of an f32. Arithmetic is done in f32; this is storage.
struct bf16 {
  std::uint16_t bits;
};

MXT_HD constexpr float to_f32(bf16 x) { return float_of(std::uint32_t(x.bits) << 16); }

/// Round to nearest, ties to even; overflow goes to infinity, NaN stays (quiet) NaN.
MXT_HD constexpr bf16 to_bf16(float x) {
  const std::uint32_t u = bits_of(x);
  const std::uint32_t rounded = u + 0x7fffu + (u >> 16 & 1u);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  return {std::uint16_t((nan ? (u | 0x400000u) : rounded) >> 16)};
}

}  // namespace mxtape
