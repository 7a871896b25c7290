#pragma once
#include "core/bf16.h"
#include "core/random.h"
#include "formats/quantizer.h"

namespace mxtape {

/// What a block is rounded with: element v becomes q = round((v - offset) * inverse) and is worth
/// q * scale + offset. A block that is NaN has scale NaN; one that becomes zero has inverse 0.
struct BlockScale {
  float inverse;
  float scale;
  float offset = 0;
};

/// What a rounded element of the block is worth.
MXT_HD constexpr float value_of(const BlockScale& s, float rounded) {
  const float scaled = rounded * s.scale;
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
  ScaleKind scale;
  bool has_offset, four_over_six;
  float flush_below;  ///< blocks with amax below this become zero
  float alpha;
  float element_max;   ///< largest element
  Grid scale_grid;     ///< floating scales
  float scale_target;  ///< what the tensor scale maps the tensor's amax / element_max to
};
BlockRule block_rule(const Quantizer& q);

/// The scale of a block from its largest magnitude, which is NaN or infinite if one of its elements is.
MXT_HD constexpr BlockScale power_of_two_scale(const BlockRule& r, float amax) {
  const int limit = r.exponent_limit;
  int e = amax > 0 ? shared_exponent(r.exponent, amax) : -limit;
  const bool is_nan = !(amax <= 0x1.fffffep127f) || (e > limit && r.exponent_nan);
  e = e > limit ? limit : e < -limit ? -limit : e;
  const float inverse = is_nan || amax < r.flush_below ? 0 : scale_of_exponent(-e) * r.alpha;
  return {inverse, is_nan ? __builtin_nanf("") : scale_of_exponent(e)};
}

/// The factor s_enc that brings a whole tensor into the range of floating block scales; `amax` of the tensor.
/// The 1e-30 guards an all-zero tensor and nothing more: a larger guard changes gradients.
MXT_HD constexpr float tensor_encode_scale(const BlockRule& r, float amax) {
  const float guarded = amax < 1e-30f ? 1e-30f : amax;
  return r.element_max * r.scale_target / guarded;
}

/// The scale of a block below a tensor scale: round(amax / element_max * s_enc), `element_max` 6 for e2m1
/// (or 4 when four-over-six tries that). A scale that rounds to zero makes the block zero.
MXT_HD constexpr BlockScale floating_scale(const BlockRule& r, float amax, float element_max, float encode) {
  if (!(amax <= 0x1.fffffep127f && encode > 0)) return {0, __builtin_nanf("")};
  const float scale = round_even(r.scale_grid, amax / element_max * encode);
  return {scale > 0 ? encode / scale * r.alpha : 0, scale};
}

/// amax / element_max. Scales below the smallest normal f32 make the block zero.
MXT_HD constexpr BlockScale f32_scale(const BlockRule& r, float amax, float element_max) {
  if (!(amax <= 0x1.fffffep127f)) return {0, __builtin_nanf("")};
  const float scale = amax / element_max;
  if (amax < r.flush_below || scale < 0x1p-126f) return {0, 0};
  return {1 / scale * r.alpha, scale};
}

/// Magnitudes order as integers, infinities and NaN on top.
template <class Block>
MXT_HD constexpr float largest_magnitude(const Block& block, float origin) {
  return float_of(block.fold(
      0u, [&](float v) { return bits_of(v - origin) & 0x7fffffffu; },
      [](std::uint32_t a, std::uint32_t b) { return b > a ? b : a; }));
}

/// The scale of a block. `block` goes over its elements: fold(start, of, combine) combines of(element) in any
/// order, sum(of) adds in row-major order, first() is the first in that order.
template <class Block>
MXT_HD constexpr BlockScale scale_of_block(const BlockRule& r, float encode, const Block& block) {
  if (r.scale == ScaleKind::none) return {r.alpha, 1};
  float amax = largest_magnitude(block, 0), offset = 0;
  if (r.has_offset && amax <= 0x1.fffffep127f) {
    const auto itself = [](float v) { return v; };
    const float lowest = block.fold(__builtin_inff(), itself, [](float a, float b) { return b < a ? b : a; });
    const float highest =
        block.fold(-__builtin_inff(), itself, [](float a, float b) { return b > a ? b : a; });
    // Of zeros of both signs the first one counts. Held within FP16 (Yang et al. 2025).
    constexpr Grid half_grid = grid_of(f16);
    offset = round_even(half_grid, lowest == highest ? block.first() : (highest + lowest) * 0.5f);
    amax = largest_magnitude(block, offset);
  }
  const auto with_largest_at = [&](float element_max) {
    return r.scale == ScaleKind::power_of_two ? power_of_two_scale(r, amax)
           : r.scale == ScaleKind::floating   ? floating_scale(r, amax, element_max, encode)
                                              : f32_scale(r, amax, element_max);
  };
  // By nearest even always: a choice that saw random draws would favour one of their outcomes.
  const auto squared_error = [&](const BlockScale& s) {
    return block.sum([&](float v) {
      const float scaled = v * s.inverse;
      const float error = (round_even(r.grid, scaled) - scaled) * s.scale;
      return error * error;
    });
  };
  BlockScale s = with_largest_at(r.element_max);
  if (r.four_over_six) {
    const BlockScale four = with_largest_at(4);
    if (squared_error(four) < squared_error(s)) s = four;
  }
  s.offset = offset;
  return s;
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
  if (magnitude <= r.element_max || magnitude != magnitude) return rounded;
  return float_of((bits_of(x) & 0x80000000u) | bits_of(r.overflow));
}

/// The random bits of element i: 16 or 32 by key, of which the highest `bits` are used.
MXT_HD constexpr std::uint32_t draw_bits(const DrawKey& key, std::uint64_t i, int bits) {
  return bits <= 16 ? key.bits16(i) >> (16 - bits) : key.bits32(i) >> (32 - bits);
}

}  // namespace mxtape
