#pragma once
// For *_pairs.cpp only: elementary functions of sixteen lanes, with fused multiplications and additions.
#include "kernels/cpu/pairs/pair_dots.h"

namespace mxtape::cpu::MXT_TIER {

/// 2^x for x <= 0; 0 below -126.5. A NaN passes. (2^f - 1) / f for |f| <= 1/2 is a minimax fit whose error is
/// 5.5e-9 of 2^f; the steps round by less than an ulp more.
MXT_LANES f32x16 power_of_two(const f32x16& x) {
  constexpr float round_to_integer = 0x1.8p23f;
  const f32x16 held = max(all(-127.0f), x);  // x, if that is NaN
  const f32x16 shifted = held + round_to_integer;
  const f32x16 f = held - (shifted - round_to_integer);
  f32x16 q = multiply_add(f, all(0x1.4bd1dcp-13f), all(0x1.5fc00ap-10f));
  q = multiply_add(q, f, all(0x1.3b21c6p-7f));
  q = multiply_add(q, f, all(0x1.c6ada6p-5f));
  q = multiply_add(q, f, all(0x1.ebfbe6p-3f));
  q = multiply_add(q, f, all(0x1.62e432p-1f));
  return multiply_add(q, f, all(1.0f)) * floats((bits(shifted) + 127u) << 23);
}

/// log x for positive normal x, within its rounding to f32; NaN for NaN.
MXT_LANES f32x16 log_of(const f32x16& x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)).
  const u32x16 e = (bits(x) - 0x3f3504f3u) & 0xff800000u;
  const f32x16 m = floats(bits(x) - e), exponent = to_floats(as_signed(e) >> 23);
  alignas(64) float halves[3][lanes];
  store(halves[0], m), store(halves[1], exponent);
  for (int i = 0; i < lanes; i += int(sizeof(native::f64) / sizeof(double))) {
    const native::f64 of_m = load_double<native::f64>(halves[0] + i);
    const native::f64 z = (of_m - 1.0) / (of_m + 1.0), z2 = z * z;
    const native::f64 series =
        ((((z2 * (2.0 / 11) + 2.0 / 9) * z2 + 2.0 / 7) * z2 + 2.0 / 5) * z2 + 2.0 / 3) * z2 + 2.0;
    store_as(halves[2] + i, __builtin_convertvector(
                                load_double<native::f64>(halves[1] + i) * 0x1.62e42fefa39efp-1 + z * series,
                                native::half_f32));
  }
  return select(x == x, load(halves[2]), x);
}

}  // namespace mxtape::cpu::MXT_TIER
