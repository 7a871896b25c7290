#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "formats/scale.h"

namespace mxtape {

/// The elements that share one scale, seen from the GEMM: `along` of them on the axis that it sums over,
/// `across` of them on the other. 0 means the whole extent. Blocks at ragged ends are shorter.
struct BlockShape {
  std::int32_t along = 32;
  std::int32_t across = 1;
  constexpr bool operator==(const BlockShape&) const = default;
};

/// A complete rounding recipe for one operand of one GEMM. A plain value: compare it, print it, put it in a
/// recipe. The default leaves the operand in f32.
struct Quantizer {
  ElementFormat element = f32;
  BlockShape block{};
  ScaleKind scale = ScaleKind::none;
  std::uint8_t scale_bits = 8;        ///< power_of_two: width of the exponent
  ElementFormat scale_format = e4m3;  ///< floating: the block scale's format
  bool scale_sign = true;             ///< floating: its code has a sign bit (e4m3), or none (ue5m3)
  ScaleRounding scale_rounding = ScaleRounding::even;  ///< floating
  OuterScale outer = OuterScale::tensor;               ///< floating
  std::int32_t outer_along = 0;  ///< group: elements along the summed axis, 0 for all; whole blocks
  ScaleOverflow overflow = ScaleOverflow::saturate;
  ScaleRule rule = ScaleRule::floor;
  Rounding rounding = Rounding::even;
  std::uint8_t sr_bits = 16;  ///< random bits per stochastic rounding, 8 to 32
  float alpha = 1;            ///< elements are rounded from alpha * x / S; undone by the GEMM's multiplier
  Statistic statistic = Statistic::amax;
  float clip = 2.92247856f;  ///< rms: the default errs least for normal numbers in e2m1 (arXiv:2505.14669)
  Offset offset = Offset::none;
  bool four_over_six = false;   ///< per block, scale to 4 or to 6, whichever errs less (arXiv:2512.02010)
  bool search = false;          ///< power_of_two: E, E - 1 or E + 1, whichever errs least
  bool absolute_error = false;  ///< these two add up errors instead of their squares
  bool eden = false;            ///< floating: the scale times <x, x> / <x, Q(x)> (MS-EDEN, arXiv:2601.22813)
  bool ema = false;             ///< a moving average decides between neighbours: round_by_average()
  bool flush_subnormals = false;  ///< blocks whose largest magnitude is below 2^-126 become zero

  constexpr bool is_identity() const { return element.mantissa_bits == 23 && scale == ScaleKind::none; }
  constexpr bool is_stochastic() const {
    return rounding == Rounding::stochastic || scale_rounding == ScaleRounding::stochastic;
  }
  constexpr bool has_tensor_scale() const {
    return scale == ScaleKind::floating && outer == OuterScale::tensor;
  }
  constexpr bool has_group_scale() const {
    return scale == ScaleKind::floating && outer == OuterScale::group;
  }
  /// True if a block follows from its amax and its elements alone, by formulas: what tiles of CUDA take.
  constexpr bool scale_is_of_amax() const {
    return statistic == Statistic::amax && offset == Offset::none && !four_over_six && !search && !eden &&
           !ema && scale_rounding == ScaleRounding::even &&
           (scale != ScaleKind::floating || has_tensor_scale()) && scale_bits <= 8;
  }
  /// What its values need to be exact: bf16 for everything whose significant bits fit in 8, f32 otherwise
  /// (midpoints, f32 and group scales, wide elements). Operands are kept in this type and pick the GEMM.
  /// Values below 2^-126 of e4m3 and e5m2 may need more bits; there the operand is the bf16 number nearest to
  /// code * scale.
  constexpr DType operand_dtype() const {
    const int digits = element.significant_bits() + (offset == Offset::zero_point ? 1 : 0) +
                       (scale == ScaleKind::floating ? scale_format.significant_bits() : 0);
    const bool exact =
        scale != ScaleKind::f32 && offset != Offset::midpoint && !has_group_scale() && digits <= 8;
    return exact ? DType::bf16 : DType::f32;
  }
  /// True if a GEMM with this operand must be multiplied afterwards: tensor scale or alpha.
  constexpr bool has_multiplier() const { return has_tensor_scale() || alpha != 1; }
  /// Storage cost, scales and offsets included; blocks taken as full, and what is stored once per tensor or
  /// whole axis as free.
  double bits_per_element() const;
  /// What is wrong if fields contradict each other or are out of range, else empty.
  std::string contradiction() const;

  constexpr bool operator==(const Quantizer&) const = default;
};

constexpr Quantizer mx(const ElementFormat& element, int block = 32, ScaleRule rule = ScaleRule::floor) {
  Quantizer q;
  q.element = element;
  q.block = {block, 1};
  q.scale = ScaleKind::power_of_two;
  q.rule = rule;
  return q;
}
constexpr Quantizer plain_cast(const ElementFormat& element) {
  Quantizer q;
  q.element = element;
  return q;
}
constexpr Quantizer nv(const ElementFormat& element, int block = 16) {
  Quantizer q = mx(element, block);
  q.scale = ScaleKind::floating;
  return q;
}

inline constexpr Quantizer f32_passthrough{};
inline constexpr Quantizer bf16_cast = plain_cast(bf16_format);
inline constexpr Quantizer mxfp8_e4m3 = mx(e4m3), mxfp8_e5m2 = mx(e5m2);
inline constexpr Quantizer mxfp6_e3m2 = mx(e3m2), mxfp6_e2m3 = mx(e2m3);
inline constexpr Quantizer mxfp4 = mx(e2m1), mxint8 = mx(int8), nvfp4 = nv(e2m1);

/// "mxfp4", "e2m1 block=32 scale=e8m0 rule=even round=stochastic": a preset or an element name, then words.
/// docs/formats.md lists them. Throws Error(usage) with the word, the known ones and the nearest name.
Quantizer parse_quantizer(std::string_view text);
/// The shortest text that parses back to the same value.
std::string to_text(const Quantizer& q);

struct Preset {
  std::string_view name;
  Quantizer quantizer;
};
/// What parse_quantizer knows by name besides elements. "mxfp8" is mxfp8_e4m3 and "mxfp6" mxfp6_e3m2, the
/// choices of the training literature.
inline constexpr std::array presets{
    Preset{"mxfp8_e4m3", mxfp8_e4m3}, Preset{"mxfp8_e5m2", mxfp8_e5m2}, Preset{"mxfp6_e3m2", mxfp6_e3m2},
    Preset{"mxfp6_e2m3", mxfp6_e2m3}, Preset{"mxfp4", mxfp4},           Preset{"mxint8", mxint8},
    Preset{"nvfp4", nvfp4},           Preset{"mxfp8", mxfp8_e4m3},      Preset{"mxfp6", mxfp6_e3m2}};

}  // namespace mxtape
