#pragma once
#include "formats/block.h"

namespace mxtape {

// --- What scale_of_block() below does besides OCP's scales and NVFP4's.

/// The scale 2^e. Beyond f32's exponents a part of it is `lift`: what is left then is a scale of which
/// neither 2^e nor 2^-e is subnormal. Values of elements below e = -253 are all zero, above 253 zero or
/// infinite.
MXT_HD constexpr BlockScale power_of_two_block(int e, float alpha) {
  e = e > 253 ? 253 : e < -253 ? -253 : e;
  const int lift = e < -127 ? 126 : e > 127 ? 127 - e : 0;
  return {scale_of_exponent(-e - lift) * alpha, scale_of_exponent(e + lift), 0, 0, scale_of_exponent(lift)};
}
MXT_HD constexpr int exponent_of(const BlockScale& s) {
  return int(bits_of(s.scale) >> 23) - int(bits_of(s.lift) >> 23);
}
/// power_of_two_scale() of more than 8 bits.
MXT_HD constexpr BlockScale wide_power_of_two_scale(const BlockRule& r, float amax) {
  if (!(amax <= 0x1.fffffep127f)) return nan_block();
  BlockScale s = power_of_two_block(amax > 0 ? shared_exponent(r.exponent, amax) : -127, r.alpha);
  if (amax < r.flush_below) s.inverse = 0;
  return s;
}

/// Correctly rounded on every device.
MXT_HD constexpr float square_root(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

/// clip * sqrt(mean of x^2), in place of the finite `amax` > 0. Squares are those of x / 2^e, e of amax, so
/// that none overflows.
template <class Block>
MXT_HD constexpr float rms_in_place_of_amax(const BlockRule& r, float amax, const Block& block) {
  const int e = int(bits_of(amax) >> 23) - 127;
  const float down = scale_of_exponent(-(e < -126 ? -126 : e)), up = scale_of_exponent(e < -126 ? -126 : e);
  const float squares = block.sum([&](float v) { return v * down * (v * down); });
  return r.clip * square_root(squares / float(block.count())) * up;
}

/// A positive scale rounded to the format of floating scales; `draw` has r.sr_bits random bits.
MXT_HD constexpr float round_scale(const BlockRule& r, ScaleRounding rounding, float scale,
                                   std::uint32_t draw) {
  const bool stochastic = rounding == ScaleRounding::stochastic;
  const Correction correction = rounding == ScaleRounding::up     ? Correction{0, -1}
                                : rounding == ScaleRounding::down ? Correction{1, 0}
                                                                  : Correction{};
  if (r.wide_scale)
    return saturate(r.scale_grid, round_significand(r.scale_grid.mantissa_bits, stochastic, correction, scale,
                                                    draw, r.sr_bits));
  return stochastic ? round_stochastic_exact(r.scale_grid, scale, draw, r.sr_bits)
                    : round_to(r.scale_grid, correction, scale);
}

/// What a block errs in sum when it is rounded with s: squares, or magnitudes with error=mae, in `unit`s. By
/// nearest even always: a choice that saw random draws would favour one of their outcomes.
template <class Block>
MXT_HD constexpr float error_with(const BlockRule& r, const BlockScale& s, float unit, float offset,
                                  const Block& block) {
  const float step = s.scale / s.lift / unit * (r.wide ? 0x1p-100f : 1.0f);  // or squares would overflow
  return block.sum([&](float v) {
    const float scaled = (v - offset) * s.lift * s.inverse;
    const float nearest =
        r.wide ? saturate(r.grid, round_significand(r.grid.mantissa_bits, false, {}, scaled, 0, 0))
               : round_even(r.grid, scaled);
    const float error = (nearest - scaled) * step;
    return r.absolute_error ? (error < 0 ? -error : error) : error * error;
  });
}

/// <x, x> / <x, Q(x)>: what makes a block rounded to nearest unbiased along itself (arXiv:2601.22813). 1 for
/// a block of which nothing is left.
template <class Block>
MXT_HD constexpr float eden_factor(const BlockRule& r, const BlockScale& s, const Block& block) {
  const float with_itself = block.sum([&](float v) { return v * s.inverse * (v * s.inverse); });
  const float with_rounded =
      block.sum([&](float v) { return v * s.inverse * round_element(r, v * s.inverse, 0); });
  return with_rounded > 0 ? with_itself / with_rounded : 1;
}

/// Where the codes of an integer block begin: the whole number of steps z, as a value, by which the grid
/// moves so that it reaches from `lowest` <= 0 on. The grid keeps 0.
MXT_HD constexpr float zero_point(const BlockRule& r, const BlockScale& s, float lowest) {
  const float step = power_of_two(r.grid.min_exponent - r.grid.mantissa_bits);
  const float steps = scaled_by(s, lowest) / step;
  constexpr float shift = 0x1.8p23f;  // as round_even(); |steps| < 2^22 for 16 bits below any rule
  const float first = ((steps + shift) - shift) * step;
  const float zero = first - r.grid.lowest;
  return zero < -r.grid.highest ? -r.grid.highest : zero > -r.grid.lowest ? -r.grid.lowest : zero;
}

// --- The scale of a block.

/// `block` goes over its elements: fold(start, of, combine) combines of(element) in any order, sum(of) adds
/// in row-major order, first() is the first in that order, count() how many there are. draw() gives the
/// random bits of the first; it is called for stochastic scales only. `encode`: s_enc of the tensor or group,
/// else 1.
template <class Block, class Draw>
MXT_HD constexpr BlockScale scale_of_block(const BlockRule& r, float encode, const Block& block,
                                           const Draw& draw) {
  if (r.scale == ScaleKind::none) return {r.alpha, 1};
  float amax = largest_magnitude(block, 0), offset = 0, lowest = 0;
  const bool finite = amax <= 0x1.fffffep127f;
  if (r.offset != Offset::none && finite) {
    const bool with_zero = r.offset == Offset::zero_point;
    const auto itself = [](float v) { return v; };
    lowest = block.fold(with_zero ? 0.0f : __builtin_inff(), itself,
                        [](float a, float b) { return b < a ? b : a; });
    const float highest = block.fold(with_zero ? 0.0f : -__builtin_inff(), itself,
                                     [](float a, float b) { return b > a ? b : a; });
    if (with_zero) {
      amax = highest - lowest <= 0x1p127f ? (highest - lowest) * 0.5f : highest * 0.5f - lowest * 0.5f;
    } else {
      // Of zeros of both signs the first one counts. Held within FP16 (Yang et al. 2025).
      constexpr Grid half_grid = grid_of(f16);
      offset = round_even(half_grid, lowest == highest ? block.first() : (highest + lowest) * 0.5f);
      amax = largest_magnitude(block, offset);
    }
  }
  if (r.statistic == Statistic::rms && finite && amax > 0) amax = rms_in_place_of_amax(r, amax, block);
  const std::uint32_t draw_of_scale = r.scale_rounding == ScaleRounding::stochastic ? draw() : 0;
  const auto with_largest_at = [&](float element_max) {
    if (r.scale == ScaleKind::power_of_two)
      return r.wide_exponent ? wide_power_of_two_scale(r, amax) : power_of_two_scale(r, amax);
    if (r.scale == ScaleKind::f32) return f32_scale(r, amax, element_max);
    const ScaleRounding rounding = r.eden ? ScaleRounding::even : r.scale_rounding;
    if (rounding == ScaleRounding::even && !r.wide_scale) return floating_scale(r, amax, element_max, encode);
    if (!(amax <= 0x1.fffffep127f && encode > 0)) return nan_block();
    return floating_block(r, round_scale(r, rounding, amax / element_max * encode, draw_of_scale), encode);
  };
  // With a zero point the range counts, which one more code makes longer.
  const bool moves = r.offset == Offset::zero_point;
  BlockScale s = with_largest_at(moves ? (r.grid.highest - r.grid.lowest) * 0.5f : r.element_max);
  const auto take_if_better = [&](const BlockScale& other) {
    // In units of a power of two no bit of an error changes, and no square leaves f32.
    const float scale = s.scale / s.lift,
                unit = scale < 0x1p-126f ? 0x1p-126f : float_of(bits_of(scale) & 0x7f800000u);
    const auto error = [&](const BlockScale& with) { return error_with(r, with, unit, offset, block); };
    if (s.inverse == 0 || error(other) < error(s)) s = other;  // 0 makes the block zero: error() is 0
  };
  if (r.four_over_six) take_if_better(with_largest_at(4));
  if (r.search && s.inverse > 0) {
    const int e = exponent_of(s);
    if (e > -r.exponent_limit) take_if_better(power_of_two_block(e - 1, r.alpha));
    if (e < r.exponent_limit) take_if_better(power_of_two_block(e + 1, r.alpha));
  }
  if (r.eden && s.inverse > 0)
    s.scale = round_scale(r, r.scale_rounding, s.scale * eden_factor(r, s, block), draw_of_scale);
  if (r.group_scale) s.scale = s.scale / encode;
  s.offset = offset;
  if (moves) s.zero = zero_point(r, s, lowest);
  return s;
}

}  // namespace mxtape
