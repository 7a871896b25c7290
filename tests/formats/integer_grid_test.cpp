#include "formats/integer_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "formats/codec/codec.h"

namespace mxtape {
namespace {

/// Whether all finite numbers of a format are integers of at most 127 units, found by going over its codes.
bool fits_bytes_by_hand(const ElementFormat& f) {
  double unit = INFINITY, top = 0;
  for (std::uint32_t code = 0; code < 1u << f.bits(); ++code) {
    const double v = std::fabs(double(decode(f, code)));
    if (f.is_integer() && !f.full_range && code == 1u << (f.bits() - 1))
      continue;  // -2^(bits-1) is no number
    if (!std::isfinite(v) || v == 0) continue;
    unit = std::min(unit, v), top = std::max(top, v);
  }
  return top / unit <= 127;
}

TEST(IntegerGrid, EveryFormatOfUpToEightBitsHasOneIffItsCodesAreIntegersOfAtMost127Units) {
  int eligible = 0;
  const auto check = [&](const ElementFormat& f) {
    const auto grid = integer_grid(f);
    ASSERT_EQ(grid.has_value(), fits_bytes_by_hand(f)) << f.name();
    if (!grid) return;
    ++eligible;
    for (std::uint32_t code = 0; code < 1u << f.bits(); ++code) {
      const float v = decode(f, code), steps = std::ldexp(v, -grid->unit_exponent);
      if (!std::isfinite(v) || (f.is_integer() && !f.full_range && code == 1u << (f.bits() - 1))) continue;
      EXPECT_EQ(steps, std::nearbyint(steps)) << f.name();
      EXPECT_LE(std::fabs(steps), float(grid->largest)) << f.name();
    }
  };
  for (int e = 1; e <= 7; ++e)
    for (int m = 0; m + e + 1 <= 8; ++m)
      for (const Specials specials : {Specials::none, Specials::nan_only, Specials::ieee}) {
        if (e == 1 && m == 0 && specials != Specials::none) continue;  // no finite number but zero is left
        check(float_format(e, m, specials));
      }
  for (int bits = 2; bits <= 10; ++bits) {
    ElementFormat f = int_format(bits);
    check(f);
    f.full_range = true;
    check(f);
    check(int_format(bits, 2));
  }
  EXPECT_GE(eligible, 20);
}

TEST(IntegerGrid, OperandsHaveCodesIfElementsScalesAndBlocksAllow) {
  for (const char* text :
       {"mxfp4", "mxint8", "nvfp4", "mxfp6_e2m3", "e3m0 block=32 scale=e8m0", "int4 block=16 scale=e8m0",
        "int2 block=64 scale=e5m0", "mxfp4 block=16x16", "mxfp4 alpha=0.75 round=stochastic", "nvfp4 4o6",
        "int4 emax=3 block=32 scale=e8m0", "mxfp4 block=1040"})
    EXPECT_TRUE(has_integer_codes(parse_quantizer(text))) << text;
  for (const char* text :
       {"f32", "bf16", "e2m1", "mxfp8", "mxfp6_e3m2", "e2m1 block=32 scale=f32", "mxfp4 block=8",
        "mxfp4 block=40", "mxfp4 block=axis", "mxfp4 offset=fp16", "mxint8 range=full", "mxfp4 block=1056"})
    EXPECT_FALSE(has_integer_codes(parse_quantizer(text))) << text;
}

}  // namespace
}  // namespace mxtape
