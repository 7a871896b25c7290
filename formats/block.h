#pragma once
#include "core/bf16.h"
#include "core/random.h"
#include "formats/quantizer.h"
#include "formats/round_by_average.h"

namespace mxtape {

/// What a block is rounded with: element v becomes q = round((v - offset) * lift * inverse) and is worth
/// q * scale / lift + offset. A block that is NaN has scale NaN; one that becomes zero has inverse 0.
struct BlockScale {
  float inverse;
  float scale;
  float offset = 0;
  float zero = 0;  ///< with a zero point: q lies in the grid moved up by this; its code is of q - zero
  float lift = 1;  ///< a power of two, where the scale is beyond f32's exponents
};

/// An element in the units in which it is rounded.
MXT_HD constexpr float scaled_by(const BlockScale& s, float v) { return (v - s.offset) * s.lift * s.inverse; }

/// What a rounded element of the block is worth.
MXT_HD constexpr float value_of(const BlockScale& s, float rounded) {
  const float scaled = rounded * s.scale / s.lift;
  return s.offset != 0 ? scaled + s.offset : scaled;  // x + 0 would lose the sign of a zero
}

/// All that rounding blocks needs, derived once from a Quantizer; small enough for a kernel argument.
struct BlockRule {
  Grid grid;
  Rounding rounding;
  Correction correction;
  int sr_bits;
  bool sr_exact;   ///< more random bits than the fast way has room for
  bool wide;       ///< the element has f32's exponents: bits are rounded, not sums
  bool saturates;  ///< overflow goes to the largest value; else (plain casts) to `overflow`
  float overflow;  ///< infinity, or NaN for formats without it
  ExponentRule exponent;
  int exponent_limit;  ///< E is held in [-limit, limit]
  bool exponent_nan;   ///< above the limit the block is NaN instead
  bool wide_exponent;  ///< E may be beyond f32's exponents, and is nowhere near the limit
  ScaleKind scale;
  Offset offset;
  Statistic statistic;
  float clip;
  bool four_over_six, search, absolute_error, eden, group_scale, ema;
  bool adds_up;       ///< its scale takes sums over the elements, whose order counts
  float flush_below;  ///< blocks with amax below this become zero
  float alpha;
  float element_max;  ///< largest element
  Grid scale_grid;    ///< floating scales
  bool wide_scale;    ///< they have f32's exponents
  ScaleRounding scale_rounding;
  float scale_target;  ///< what the tensor scale maps the tensor's amax / element_max to
};
BlockRule block_rule(const Quantizer& q);

MXT_HD constexpr BlockScale nan_block() { return {0, __builtin_nanf("")}; }

/// The scale of a block from its largest magnitude, which is NaN or infinite if one of its elements is. Of
/// at most 8 bits.
MXT_HD constexpr BlockScale power_of_two_scale(const BlockRule& r, float amax) {
  const int limit = r.exponent_limit;
  int e = amax > 0 ? shared_exponent(r.exponent, amax) : -limit;
  const bool is_nan = !(amax <= 0x1.fffffep127f) || (e > limit && r.exponent_nan);
  e = e > limit ? limit : e < -limit ? -limit : e;
  const float inverse = is_nan || amax < r.flush_below ? 0 : scale_of_exponent(-e) * r.alpha;
  return {inverse, is_nan ? __builtin_nanf("") : scale_of_exponent(e)};
}

/// The factor s_enc that brings a whole tensor into the range of floating block scales; `amax` of the tensor.
/// 1e-30 is for an all-zero tensor: a larger guard would change gradients. 1 / 2^126 is still a normal f32.
MXT_HD constexpr float tensor_encode_scale(const BlockRule& r, float amax) {
  const float encode = r.element_max * r.scale_target / (amax < 1e-30f ? 1e-30f : amax);
  return encode > 0x1p126f ? 0x1p126f : encode;
}

MXT_HD constexpr BlockScale floating_block(const BlockRule& r, float scale, float encode) {
  const float inverse = scale >= 0x1p-126f ? encode / scale * r.alpha : 0;
  return {inverse <= 0x1.fffffep127f ? inverse : 0, scale};
}
/// The scale of a block below an outer scale: round(amax / element_max * s_enc), `element_max` 6 for e2m1
/// (or 4 when four-over-six tries that). One that rounds to zero or has no inverse makes the block zero.
MXT_HD constexpr BlockScale floating_scale(const BlockRule& r, float amax, float element_max, float encode) {
  if (!(amax <= 0x1.fffffep127f && encode > 0)) return nan_block();
  return floating_block(r, round_even(r.scale_grid, amax / element_max * encode), encode);
}

/// amax / element_max. Scales below the smallest normal f32 make the block zero.
MXT_HD constexpr BlockScale f32_scale(const BlockRule& r, float amax, float element_max) {
  if (!(amax <= 0x1.fffffep127f)) return nan_block();
  const float scale = amax / element_max;
  return scale < 0x1p-126f ? BlockScale{0, 0} : BlockScale{1 / scale * r.alpha, scale};
}

/// Magnitudes order as integers, infinities and NaN on top.
template <class Block>
MXT_HD constexpr float largest_magnitude(const Block& block, float origin) {
  return float_of(block.fold(
      0u, [&](float v) { return bits_of(v - origin) & 0x7fffffffu; },
      [](std::uint32_t a, std::uint32_t b) { return b > a ? b : a; }));
}

/// One scaled element. `draw` holds r.sr_bits random bits in its low end; ignored unless stochastic.
MXT_HD constexpr float round_element(const BlockRule& r, float x, std::uint32_t draw) {
  const bool stochastic = r.rounding == Rounding::stochastic;
  float rounded = 0;
  if (r.wide) {
    rounded = round_significand(r.grid.mantissa_bits, stochastic, r.correction, x, draw, r.sr_bits);
  } else if (stochastic) {
    rounded = r.sr_exact ? round_stochastic_exact(r.grid, x, draw, r.sr_bits)
                         : round_stochastic(r.grid, x, draw, r.sr_bits);
  } else {
    rounded = round_to(r.grid, r.correction, x);
  }
  if (r.saturates) return r.wide ? saturate(r.grid, rounded) : rounded;
  const float magnitude = float_of(bits_of(rounded) & 0x7fffffffu);
  const bool infinite = (bits_of(x) & 0x7fffffffu) == 0x7f800000u;  // which truncation would make a number
  if (!infinite && (magnitude <= r.element_max || magnitude != magnitude)) return rounded;
  return float_of((bits_of(x) & 0x80000000u) | bits_of(r.overflow));
}

/// Element v of a block, worth value_of(s, the result); with `ema` draw is the bits of its f32 average. With
/// a zero point the grid moves: it reaches twice as far with the same step.
MXT_HD constexpr float round_in_block(const BlockRule& r, const BlockScale& s, float v, std::uint32_t draw) {
  const float scaled = scaled_by(s, v);
  if (r.ema) return round_by_average(r.grid, scaled, scaled_by(s, float_of(draw)));
  if (s.zero == 0) return round_element(r, scaled, draw);
  BlockRule moved = r;
  moved.grid = {r.grid.min_exponent + 1, r.grid.mantissa_bits + 1, r.grid.highest + s.zero,
                r.grid.lowest + s.zero, false};
  moved.sr_exact = true;
  return round_element(moved, scaled, draw);
}

/// The random bits of element i: 16 or 32 by key, of which the highest `bits` are used.
MXT_HD constexpr std::uint32_t draw_bits(const DrawKey& key, std::uint64_t i, int bits) {
  return bits <= 16 ? key.bits16(i) >> (16 - bits) : key.bits32(i) >> (32 - bits);
}
}  // namespace mxtape
