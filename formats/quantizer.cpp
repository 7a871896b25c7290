#include "formats/quantizer.h"

namespace mxtape {

double Quantizer::bits_per_element() const {
  const double elements = double(block.along) * block.across;  // 0: the whole extent of an axis
  double per_block = has_offset ? 16 : 0;
  if (scale == ScaleKind::power_of_two) per_block += scale_bits;
  if (scale == ScaleKind::floating) per_block += scale_format.bits();
  if (scale == ScaleKind::f32) per_block += 32;
  return element.bits() + (scale != ScaleKind::none && elements > 0 ? per_block / elements : 0);
}

std::string Quantizer::contradiction() const {
  if (element.exponent_bits > 8 || element.mantissa_bits > 23)
    return "elements have at most 8 exponent and 23 mantissa bits";
  if (element.exponent_bits == 8 && element.specials != Specials::ieee)
    return "elements with 8 exponent bits keep the top one for infinities, as bf16";
  if (element.full_range && !element.is_integer()) return "range=full is for integers";
  if (block.along < 0 || block.across < 0) return "block extents are positive, or 0 for a whole axis";
  if (scale_bits < 2 || scale_bits > 8) return "power-of-two scales have 2 to 8 exponent bits";
  if (sr_bits < 8 || sr_bits > 32) return "sr.bits is 8 to 32";
  if (!(alpha > 0 && alpha <= 1)) return "alpha is in (0, 1]";
  if (scale == ScaleKind::floating && (scale_format.is_integer() || scale_format.bits() > 8))
    return "a floating scale is a float format of at most 8 bits, as e4m3";
  if (scale == ScaleKind::none && (alpha != 1 || has_offset || flush_subnormals || four_over_six))
    return "alpha, offset, flush and 4o6 need a block scale; is scale=e8m0 missing?";
  if (has_offset && (scale == ScaleKind::floating || alpha != 1))
    return "offset=fp16 is for scales that need no multiplier afterwards (no alpha, no floating scale)";
  const bool is_e2m1 = element.exponent_bits == 2 && element.mantissa_bits == 1;
  if (four_over_six && !(is_e2m1 && (scale == ScaleKind::floating || scale == ScaleKind::f32)))
    return "4o6 is for e2m1 below an e4m3 or f32 scale";
  return {};
}

}  // namespace mxtape
