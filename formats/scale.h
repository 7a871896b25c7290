#pragma once
#include "formats/round.h"

namespace mxtape {

/// How a block's power-of-two scale 2^E is picked from its largest magnitude A = mu * 2^e, 1 <= mu < 2.
/// E = clamp(e - emax + delta); max_finite = nu * 2^top. docs/numerics.md has sources and ranges of A / 2^E.
enum class ScaleRule : std::uint8_t { floor, ceil, even, rceil, rfloor, rnearest };

/// With their words and the delta that docs/numerics.md gives them. Parser and tests read this list.
struct NamedRule {
  std::string_view name;
  ScaleRule value;
  std::string_view delta;
};
inline constexpr std::array scale_rules{
    NamedRule{"floor", ScaleRule::floor, "0"},
    NamedRule{"ceil", ScaleRule::ceil, "1 if mu > 1"},
    NamedRule{"even", ScaleRule::even, "1 if mu >= 2 - 2^-(m+1)"},
    NamedRule{"rceil", ScaleRule::rceil, "relative to top: 1 if mu > nu"},
    NamedRule{"rfloor", ScaleRule::rfloor, "relative to top: -1 if mu < nu"},
    NamedRule{"rnearest", ScaleRule::rnearest, "relative to top: the nearest integer to log2(mu / nu)"}};

/// What a block's scale is stored in.
enum class ScaleKind : std::uint8_t {
  none,          ///< no scale: a plain cast, as bf16
  power_of_two,  ///< an exponent of `scale_bits` bits: E8M0 is 8, ExM0 2 to 11
  floating,      ///< a float format such as e4m3: of amax / max_finite, below an outer scale or none
  f32,           ///< amax / max_finite in f32
};

/// The f32 scale that stands above the block scales of ScaleKind::floating.
enum class OuterScale : std::uint8_t {
  tensor,  ///< one per tensor; the GEMM multiplies by it (NVFP4)
  group,   ///< one per whole axis or per so many elements along it; part of the operand's values
  none,
};

/// What of a block its scale is made from.
enum class Statistic : std::uint8_t {
  amax,
  rms,  ///< clip * sqrt(mean of x^2) instead (QuEST, arXiv:2502.05003; Quartet, arXiv:2505.14669)
};

/// How a floating scale is rounded to its format.
enum class ScaleRounding : std::uint8_t { even, up, down, stochastic };

/// What is subtracted from the elements of a block.
enum class Offset : std::uint8_t {
  none,
  midpoint,    ///< FP16 (max + min) / 2 (Yang et al. 2025)
  zero_point,  ///< integers: the codes move by a whole number of steps, so that they span [min, max] and 0
};

/// What happens when a power-of-two exponent is above what its scale can hold. Below it always clamps.
enum class ScaleOverflow : std::uint8_t {
  saturate,  ///< the exponent clamps and the elements saturate (pychop; E8M0 in all peers)
  nan,       ///< the block is NaN (microxcaling's narrow scales)
};

/// A ScaleRule for one element format as two numbers, so that picking an exponent is one integer addition:
/// the carry out of mu's fraction is delta. rceil and rfloor compare mu with nu, the others with constants.
struct ExponentRule {
  std::uint32_t carry;  ///< 2^23 - threshold on the fraction of mu, in units of 2^-23
  int subtract;         ///< emax, or the exponent of max_finite
};
constexpr ExponentRule exponent_rule(const ElementFormat& f, ScaleRule rule) {
  const std::uint32_t nu = bits_of(f.max_finite()) & 0x7fffffu;
  const int top = int(bits_of(f.max_finite()) >> 23) - 127;  // differs from emax when that was given
  // rnearest: delta changes where mu is nu sqrt(2), or half of that. Irrational, so there are no ties.
  const double edge = 1.4142135623730951 * (1 + double(nu) * 0x1p-23);
  const bool below = edge >= 2;
  const auto last = std::uint32_t(((below ? edge / 2 : edge) - 1) * 0x1p23);  // fraction of mu that stays
  const ExponentRule of[] = {{0, f.emax},                                     // floor
                             {0x7fffffu, f.emax},                             // ceil
                             {f.mantissa_bits < 23 ? 1u << (22 - f.mantissa_bits) : 0, f.emax},  // even
                             {0x7fffffu - nu, top},                                              // rceil
                             {0x800000u - nu, top + 1},                                          // rfloor
                             {0x7fffffu - last, below ? top + 1 : top}};                         // rnearest
  static_assert(std::size(of) == scale_rules.size());
  return of[std::size_t(rule)];
}

/// The block's exponent E before any clamp, from the bits of a finite A > 0: never from a floating logarithm,
/// whose rounding is wrong just below powers of two.
MXT_HD constexpr int shared_exponent(ExponentRule rule, float amax) {
  const bool subnormal = amax < 0x1p-126f;
  const std::uint32_t bits = bits_of(subnormal ? amax * 0x1p24f : amax);
  return int((bits + rule.carry) >> 23) - (subnormal ? 127 + 24 : 127) - rule.subtract;
}

/// 2^E for E in [-127, 127]. 2^-127 is subnormal: flush-to-zero must be off.
MXT_HD constexpr float scale_of_exponent(int e) { return e >= -126 ? power_of_two(e) : 0x1p-127f; }

static_assert(shared_exponent(exponent_rule(e2m1, ScaleRule::floor), 7.9999995f) == 0);
static_assert(shared_exponent(exponent_rule(e2m1, ScaleRule::even), 7.0f) == 1);
static_assert(shared_exponent(exponent_rule(e2m1, ScaleRule::rceil), 6.0f) == 0);
static_assert(shared_exponent(exponent_rule(e2m1, ScaleRule::rfloor), 5.9f) == -1);
static_assert(shared_exponent(exponent_rule(e2m1, ScaleRule::rnearest), 8.485281f) == 0 &&
              shared_exponent(exponent_rule(e2m1, ScaleRule::rnearest), 8.485282f) == 1);

}  // namespace mxtape
