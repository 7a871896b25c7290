#pragma once
#include "formats/round.h"

namespace mxtape {

/// How a block's power-of-two scale 2^E is picked from its largest magnitude A = mu * 2^e, 1 <= mu < 2.
/// E = clamp(e - emax + delta); max_finite = nu * 2^floor(log2 max_finite). docs/numerics.md has the ranges
/// of A / 2^E.
enum class ScaleRule : std::uint8_t {
  floor,   ///< delta = 0. OCP MX v1.0 section 6.3; may saturate the largest element
  ceil,    ///< delta = 1 if mu > 1
  even,    ///< delta = 1 if mu >= 2 - 2^-(m+1): A rounded to the element's m mantissa bits first
  rceil,   ///< the smallest E with A <= max_finite * 2^E (NVIDIA, cuBLAS)
  rfloor,  ///< the largest E with A >= max_finite * 2^E: always saturates unless equal (2^floor(log2(A /
           ///< max_finite)))
};

/// What a block's scale is stored in.
enum class ScaleKind : std::uint8_t {
  none,          ///< no scale: a plain cast, as bf16
  power_of_two,  ///< an exponent of `bits` bits: E8M0 is 8, ExM0 any width
  floating,      ///< a float format such as e4m3, below one f32 scale per tensor (NVFP4)
  f32,           ///< amax / max_finite in f32
};

/// What happens when a power-of-two exponent is above what a narrow scale can hold. Below it always clamps.
enum class ScaleOverflow : std::uint8_t {
  nan,       ///< the block is NaN (microxcaling)
  saturate,  ///< the exponent clamps and the elements saturate (pychop)
};

/// The block's exponent E before any clamp, from the bits of A > 0: never from a floating logarithm, whose
/// rounding is wrong just below powers of two.
MXT_HD constexpr int shared_exponent(const ElementFormat& f, ScaleRule rule, float amax) {
  std::uint32_t u = bits_of(amax) & 0x7fffffffu;
  int e = int(u >> 23) - 127;
  if (u < 0x00800000u) {  // subnormal: normalise
    u = bits_of(float_of(u) * 0x1p24f);
    e = int(u >> 23) - 127 - 24;
  }
  const std::uint32_t mu = u & 0x7fffffu;  // fraction of mu, in units of 2^-23
  int delta = 0;
  if (rule == ScaleRule::ceil) delta = mu > 0;
  if (rule == ScaleRule::even) delta = mu >= 0x800000u - (1u << (22 - f.mantissa_bits));
  if (rule == ScaleRule::rceil || rule == ScaleRule::rfloor) {
    // Relative to the format's top binade, which differs from emax when emax was given.
    const std::uint32_t top = bits_of(f.max_finite());
    const std::uint32_t nu = top & 0x7fffffu;
    const int top_exponent = int(top >> 23) - 127;
    delta = rule == ScaleRule::rceil ? int(mu > nu) : -int(mu < nu);
    return e - top_exponent + delta;
  }
  return e - f.emax + delta;
}

/// 2^E for E in [-127, 127]. 2^-127 is subnormal: flush-to-zero must be off.
MXT_HD constexpr float scale_of_exponent(int e) { return e >= -126 ? power_of_two(e) : 0x1p-127f; }

}  // namespace mxtape
