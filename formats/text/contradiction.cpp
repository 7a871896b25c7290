#include "formats/quantizer.h"

namespace mxtape {

double Quantizer::bits_per_element() const {
  const double elements = double(block.along) * block.across;  // 0: the whole extent of an axis
  double per_block = offset != Offset::none ? 16 : 0;
  if (scale == ScaleKind::power_of_two) per_block += scale_bits;
  if (scale == ScaleKind::floating) per_block += scale_format.bits() - (scale_sign ? 0 : 1);
  if (has_group_scale() && outer_along > 0) per_block += 32.0 * block.along / outer_along;
  if (scale == ScaleKind::f32) per_block += 32;
  return element.bits() + (scale != ScaleKind::none && elements > 0 ? per_block / elements : 0);
}

std::string Quantizer::contradiction() const {
  if (element.exponent_bits > 8 || element.mantissa_bits > 23)
    return "elements have at most 8 exponent and 23 mantissa bits";
  if (element.exponent_bits == 8 && element.specials != Specials::ieee)
    return "elements with 8 exponent bits keep the top one for infinities, as bf16";
  if (element.full_range && !element.is_integer()) return "range=full is for integers";
  if (element.max_exponent() < element.min_exponent()) return "one exponent bit has no room for specials";
  if (element.tie != TieRule::significand && rounding != Rounding::even) return "tie is for round=even";
  if (block.along < 0 || block.across < 0) return "block extents are positive, or 0 for a whole axis";
  if (scale_bits < 2 || scale_bits > 11) return "power-of-two scales have 2 to 11 exponent bits";
  const bool floating = scale == ScaleKind::floating, amax = statistic == Statistic::amax;
  if (element.exponent_bits == 8 && (scale_bits > 8 || floating || scale == ScaleKind::f32))
    return "elements with f32's exponents take power-of-two scales of at most 8 bits; write scale=e8m0";
  const bool emax_counts = scale == ScaleKind::power_of_two && rule <= ScaleRule::even;
  if (!element.is_integer() && element.emax != element.max_exponent() && !emax_counts)
    return "emax is for power-of-two scales by rule=floor, ceil or even";
  if (sr_bits < 8 || sr_bits > 32) return "sr.bits is 8 to 32";
  if (!(alpha > 0 && alpha <= 2)) return "alpha is in (0, 2]";
  if (alpha == 2 && scale == ScaleKind::power_of_two)
    return "alpha is below 2 for power-of-two scales: 2 over the least of them is infinite";
  if (!(clip > 0 && clip <= 1e6f)) return "clip is in (0, 1e6]";
  if (scale == ScaleKind::none &&
      (alpha != 1 || offset != Offset::none || flush_subnormals || four_over_six || !amax))
    return "alpha, offset, flush, 4o6 and statistic need a block scale; is scale=e8m0 missing?";
  if (floating && (scale_format.is_integer() || scale_format.bits() > 16))
    return "a floating scale is a float format of at most 16 bits, as e4m3";
  if (!floating && (scale_rounding != ScaleRounding::even || eden || outer != OuterScale::tensor))
    return "scale.round, eden and outer are for floating scales, as scale=e4m3";
  if (flush_subnormals && scale != ScaleKind::power_of_two) return "flush is for power-of-two scales";
  const int of_scale = scale_format.exponent_bits;
  if (floating && outer != OuterScale::none && (of_scale == 8 || of_scale + element.exponent_bits == 14))
    return "the largest element times the largest scale is beyond f32; write outer=none";
  if (outer_along < 0 || (outer_along > 0 && (block.along == 0 || outer_along % block.along != 0)))
    return "outer=N holds whole blocks: a multiple of the block's length";
  if (eden && (rounding == Rounding::stochastic || element.exponent_bits > 6))
    return "eden rounds elements of at most 6 exponent bits, to nearest: its randomness is in the scale";
  if (rounding == Rounding::stochastic && scale_rounding == ScaleRounding::stochastic)
    return "of round=stochastic and scale.round=stochastic one at a time: they share the draws";
  if (offset == Offset::midpoint && (has_multiplier() || has_group_scale() || eden))
    return "offset=fp16 is for scales that need no multiplier afterwards (no alpha, no outer scale)";
  if (offset == Offset::zero_point && !(element.is_integer() && element.bits() + element.full_range <= 16))
    return "offset=int is for integers of at most 16 bits, 15 with range=full";
  if (offset != Offset::none && !(amax && !search && !eden))
    return "offset goes with statistic=amax, without search and eden";
  if (search && scale != ScaleKind::power_of_two) return "search is for power-of-two scales";
  const bool is_e2m1 = element.bits() == 4 && element.max_finite() == 6;
  if (four_over_six && !(is_e2m1 && (floating || scale == ScaleKind::f32)))
    return "4o6 is for e2m1 below a floating or f32 scale";
  if (ema && (scale == ScaleKind::none || rounding != Rounding::even || offset != Offset::none || eden ||
              scale_rounding == ScaleRounding::stochastic || element.exponent_bits == 8))
    return "ema is for blocks with a scale, below round=even, without offset, eden and random scales";
  if (absolute_error && !four_over_six && !search) return "error=mae is for 4o6 and search";
  return {};
}

}  // namespace mxtape
