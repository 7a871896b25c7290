#pragma once
#include <array>
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

/// A grid of numbers, as a value: adding a format is adding one constant to `element_formats` below.
/// Floats ExMy have bias 2^(x-1) - 1 and subnormals; integers (exponent_bits 0) are fixed-point grids k *
/// 2^-scale_bits.
struct ElementFormat {
  std::array<char, 16> label{};  ///< the name, zero-terminated
  std::uint8_t exponent_bits = 8;
  std::uint8_t mantissa_bits = 23;  ///< stored bits; the leading 1 is not counted. Integers: bits - 2
  Specials specials = Specials::ieee;
  bool full_range = false;  ///< integers only: use the code -2^(bits-1) too
  std::int8_t emax =
      127;  ///< the exponent that scale rules subtract; floor(log2 max_finite) unless said otherwise
  std::int8_t unit_exponent = 0;  ///< integers only: the grid's step is 2^unit_exponent
  TieRule tie = TieRule::significand;

  constexpr std::string_view name() const { return label.data(); }
  constexpr bool is_integer() const { return exponent_bits == 0; }
  constexpr int bits() const { return is_integer() ? 2 + mantissa_bits : 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return is_integer() ? 0 : (1 << (exponent_bits - 1)) - 1; }
  /// Exponent of the smallest normal number. For integers the exponent of the top binade, below which the
  /// step is constant.
  constexpr int min_exponent() const { return is_integer() ? unit_exponent + mantissa_bits : 1 - bias(); }
  constexpr int max_exponent() const {
    if (is_integer()) return min_exponent();
    const int top = (1 << exponent_bits) - 1;
    return (specials == Specials::ieee ? top - 1 : top) - bias();
  }
  /// Largest finite magnitude, e.g. 448 for e4m3, 6 for e2m1, 127/64 for int8.
  constexpr float max_finite() const {
    float value = float((2 << mantissa_bits) - (specials == Specials::nan_only ? 2 : 1));
    for (int e = max_exponent() - mantissa_bits; e > 0; --e) value *= 2;
    for (int e = max_exponent() - mantissa_bits; e < 0; ++e) value /= 2;
    return value;
  }
  constexpr bool operator==(const ElementFormat&) const = default;
};

/// A float format with no code reserved, with infinities, or with the all-ones code as NaN.
constexpr ElementFormat float_format(std::string_view name, int exponent_bits, int mantissa_bits,
                                     Specials specials) {
  ElementFormat f;
  for (std::size_t i = 0; i < name.size() && i + 1 < f.label.size(); ++i) f.label[i] = name[i];
  f.exponent_bits = std::uint8_t(exponent_bits);
  f.mantissa_bits = std::uint8_t(mantissa_bits);
  f.specials = specials;
  f.emax = std::int8_t(f.max_exponent());
  return f;
}

/// An n-bit integer whose largest value lies in [1, 2): the grid k * 2^-(n-2), as OCP's MXINT8 and
/// microxcaling's int4, int2. emax moves the grid and the scale rule together when it is given: emax = n - 1
/// with unit 1 is the study of Yang et al. 2025.
constexpr ElementFormat int_format(std::string_view name, int bits) {
  ElementFormat f;
  for (std::size_t i = 0; i < name.size() && i + 1 < f.label.size(); ++i) f.label[i] = name[i];
  f.exponent_bits = 0;
  f.mantissa_bits = std::uint8_t(bits - 2);
  f.specials = Specials::none;
  f.unit_exponent = std::int8_t(-(bits - 2));
  f.emax = 0;
  return f;
}

inline constexpr ElementFormat f32 = float_format("f32", 8, 23, Specials::ieee);
inline constexpr ElementFormat bf16_format = float_format("bf16", 8, 7, Specials::ieee);
inline constexpr ElementFormat f16 = float_format("f16", 5, 10, Specials::ieee);
inline constexpr ElementFormat e5m2 = float_format("e5m2", 5, 2, Specials::ieee);
inline constexpr ElementFormat e4m3 = float_format("e4m3", 4, 3, Specials::nan_only);
inline constexpr ElementFormat e3m2 = float_format("e3m2", 3, 2, Specials::none);
inline constexpr ElementFormat e2m3 = float_format("e2m3", 2, 3, Specials::none);
inline constexpr ElementFormat e2m1 = float_format("e2m1", 2, 1, Specials::none);
inline constexpr ElementFormat e3m0 = float_format("e3m0", 3, 0, Specials::none);
inline constexpr ElementFormat int8 = int_format("int8", 8);
inline constexpr ElementFormat int4 = int_format("int4", 4);
inline constexpr ElementFormat int2 = int_format("int2", 2);

/// The formats known by name. Parser, --help, the formats table and the tests read this list. Any other
/// "e<x>m<y>" is made by float_format.
inline constexpr std::array element_formats{f32,  bf16_format, f16,  e5m2, e4m3, e3m2,
                                            e2m3, e2m1,        e3m0, int8, int4, int2};

static_assert(e5m2.max_finite() == 57344 && e4m3.max_finite() == 448 && f16.max_finite() == 65504);
static_assert(e3m2.max_finite() == 28 && e2m3.max_finite() == 7.5f && e2m1.max_finite() == 6 &&
              e3m0.max_finite() == 16);
static_assert(int8.max_finite() == 127.0f / 64 && int4.max_finite() == 1.75f && int2.max_finite() == 1);

}  // namespace mxtape
