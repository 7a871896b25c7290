#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/host_device.h"

namespace mxtape {

/// What the codes with an all-ones exponent mean.
enum class Specials : std::uint8_t {
  none,      ///< all codes are finite numbers (e2m1, e2m3, e3m2, integers)
  nan_only,  ///< only the all-ones mantissa is NaN, the rest are finite (e4m3)
  ieee,      ///< infinities and NaNs (e5m2, bf16)
};

/// How a value halfway between two neighbours of a format without mantissa bits (e3m0) is rounded by `even`.
enum class TieRule : std::uint8_t {
  significand,  ///< to the even multiple of the smaller neighbour's quantum: up (3 -> 4), as pychop
  code,         ///< to the neighbour with the even code (3 -> 2), as torchao's generic cast
};

/// x 2^e; exact where that is an f32.
constexpr float times_power_of_two(float x, int e) {
  for (; e > 0; --e) x *= 2;
  for (; e < 0; ++e) x /= 2;
  return x;
}

/// A grid of numbers, as a value. Floats ExMy have bias 2^(x-1) - 1 and subnormals; integers (exponent_bits
/// 0) are the multiples of 2^unit_exponent.
struct ElementFormat {
  std::uint8_t exponent_bits = 8;
  std::uint8_t mantissa_bits = 23;  ///< stored bits; the leading 1 is not counted. Integers: bits - 2
  Specials specials = Specials::ieee;
  bool full_range = false;        ///< integers only: use the code -2^(bits-1) too
  std::int8_t emax = 127;         ///< the exponent that scale rules subtract; that of max_finite by default
  std::int8_t unit_exponent = 0;  ///< integers only: the grid's step is 2^unit_exponent
  TieRule tie = TieRule::significand;

  constexpr bool is_integer() const { return exponent_bits == 0; }
  constexpr int bits() const { return is_integer() ? 2 + mantissa_bits : 1 + exponent_bits + mantissa_bits; }
  /// Digits of the longest significand, the leading 1 included.
  constexpr int significant_bits() const { return 1 + mantissa_bits; }
  constexpr int bias() const { return is_integer() ? 0 : (1 << (exponent_bits - 1)) - 1; }
  /// Exponent of the smallest normal number. For integers the exponent of the top binade, below which the
  /// step is constant.
  constexpr int min_exponent() const { return is_integer() ? unit_exponent + mantissa_bits : 1 - bias(); }
  constexpr int max_exponent() const {
    if (is_integer()) return min_exponent();
    const int top = (1 << exponent_bits) - 1;
    const bool top_is_special =
        specials == Specials::ieee || (specials == Specials::nan_only && mantissa_bits == 0);
    return (top_is_special ? top - 1 : top) - bias();
  }
  /// Largest finite magnitude, e.g. 448 for e4m3, 6 for e2m1, 127/64 for int8.
  constexpr float max_finite() const {
    const bool nan_on_top = specials == Specials::nan_only && mantissa_bits > 0;
    return times_power_of_two(float((2 << mantissa_bits) - (nan_on_top ? 2 : 1)),
                              max_exponent() - mantissa_bits);
  }
  /// Smallest positive number.
  constexpr float min_positive() const { return times_power_of_two(1, min_exponent() - mantissa_bits); }
  constexpr bool operator==(const ElementFormat&) const = default;

  /// "e4m3", "int8", "bf16": what parse_element reads, without options (emax, range, tie, specials).
  std::string name() const;
};

/// A float format with no code reserved, with infinities, or with the all-ones code as NaN.
constexpr ElementFormat float_format(int exponent_bits, int mantissa_bits, Specials specials) {
  ElementFormat f;
  f.exponent_bits = std::uint8_t(exponent_bits);
  f.mantissa_bits = std::uint8_t(mantissa_bits);
  f.specials = specials;
  f.emax = std::int8_t(f.max_exponent());
  return f;
}

/// An n-bit integer whose largest value lies in [1, 2): the grid k * 2^-(n-2), as OCP's MXINT8 and
/// microxcaling's int4, int2.
constexpr ElementFormat int_format(int bits) {
  ElementFormat f;
  f.exponent_bits = 0;
  f.mantissa_bits = std::uint8_t(bits - 2);
  f.specials = Specials::none;
  f.unit_exponent = std::int8_t(-(bits - 2));
  f.emax = 0;
  return f;
}
/// An n-bit integer in units of 1, with a given emax for the scale rules: int4 with emax 2 gets the scales of
/// int_format(4), with emax 3 those that Yang et al. 2025 seem to use (docs/formats.md).
constexpr ElementFormat int_format(int bits, int emax) {
  ElementFormat f = int_format(bits);
  f.unit_exponent = 0;
  f.emax = std::int8_t(emax);
  return f;
}

inline constexpr ElementFormat f32 = float_format(8, 23, Specials::ieee);
inline constexpr ElementFormat bf16_format = float_format(8, 7, Specials::ieee);
inline constexpr ElementFormat f16 = float_format(5, 10, Specials::ieee);
inline constexpr ElementFormat e5m2 = float_format(5, 2, Specials::ieee);
inline constexpr ElementFormat e4m3 = float_format(4, 3, Specials::nan_only);
inline constexpr ElementFormat e3m2 = float_format(3, 2, Specials::none);
inline constexpr ElementFormat e2m3 = float_format(2, 3, Specials::none);
inline constexpr ElementFormat e2m1 = float_format(2, 1, Specials::none);
inline constexpr ElementFormat e3m0 = float_format(3, 0, Specials::none);
inline constexpr ElementFormat int8 = int_format(8);
inline constexpr ElementFormat int4 = int_format(4);
inline constexpr ElementFormat int2 = int_format(2);

struct NamedFormat {
  std::string_view name;
  ElementFormat format;
};
/// Adding a format is adding a row: parser, --help, the formats table and the tests read this list. Any
/// other "e<x>m<y>" has no code reserved (IEEE specials if x is 8), any other "int<n>" is int_format(n).
inline constexpr std::array element_formats{
    NamedFormat{"f32", f32},   NamedFormat{"bf16", bf16_format}, NamedFormat{"f16", f16},
    NamedFormat{"e5m2", e5m2}, NamedFormat{"e4m3", e4m3},        NamedFormat{"e3m2", e3m2},
    NamedFormat{"e2m3", e2m3}, NamedFormat{"e2m1", e2m1},        NamedFormat{"e3m0", e3m0},
    NamedFormat{"int8", int8}, NamedFormat{"int4", int4},        NamedFormat{"int2", int2}};

/// The format of that name, if it is one: a row of element_formats, e<x>m<y> with x 1 to 8 and y up to 22, or
/// int<n> with n 2 to 24.
std::optional<ElementFormat> parse_element(std::string_view name);

static_assert(e5m2.max_finite() == 57344 && e4m3.max_finite() == 448 && f16.max_finite() == 65504);
static_assert(e3m2.max_finite() == 28 && e2m3.max_finite() == 7.5f && e2m1.max_finite() == 6 &&
              e3m0.max_finite() == 16);
static_assert(int8.max_finite() == 127.0f / 64 && int4.max_finite() == 1.75f && int2.max_finite() == 1);

}  // namespace mxtape
