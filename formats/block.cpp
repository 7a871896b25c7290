#include "formats/block.h"

namespace mxtape {

BlockRule block_rule(const Quantizer& q) {
  BlockRule r{};
  r.grid = grid_of(q.element);
  r.rounding = q.rounding;
  r.correction = correction_of(q.rounding);
  r.sr_bits = q.sr_bits;
  r.sr_exact = q.sr_bits > 16 || q.sr_bits > 22 - q.element.mantissa_bits;
  r.wide = q.element.exponent_bits == 8;
  r.saturates = q.scale != ScaleKind::none || q.element.specials == Specials::none;
  r.overflow = q.element.specials == Specials::ieee ? __builtin_inff() : __builtin_nanf("");
  r.element_max = q.element.max_finite();
  // A plain cast must see that a value is beyond the largest: its grid goes on to the next power of two.
  // Truncation never gets there.
  if (!r.saturates && !r.wide && q.rounding != Rounding::zero) {
    r.grid.highest = power_of_two(q.element.max_exponent() + 1);
    r.grid.lowest = -r.grid.highest;
  }
  r.exponent = exponent_rule(q.element, q.rule);
  r.exponent_limit = (1 << (q.scale_bits - 1)) - 1;
  r.exponent_nan = q.overflow == ScaleOverflow::nan;
  r.wide_exponent = q.scale_bits > 8;
  r.scale = q.scale;
  r.offset = q.offset;
  r.statistic = q.statistic;
  r.clip = q.clip;
  r.four_over_six = q.four_over_six;
  r.search = q.search;
  r.absolute_error = q.absolute_error;
  r.eden = q.eden;
  r.ema = q.ema;
  r.group_scale = q.has_group_scale();
  r.adds_up = q.four_over_six || q.search || q.eden || q.statistic == Statistic::rms;
  r.flush_below = q.flush_subnormals ? 0x1p-126f : 0;
  r.alpha = q.alpha;
  r.scale_grid = grid_of(q.scale_format);
  r.wide_scale = q.scale_format.exponent_bits == 8;
  r.scale_rounding = q.scale_rounding;
  // Four-over-six needs 3/2 of the largest scale to be a scale too (arXiv:2512.02010); a scale that EDEN's
  // factor makes larger must not saturate either (arXiv:2601.22813 has 255.99).
  const float most = q.scale_format.max_finite(), power = power_of_two(q.scale_format.max_exponent());
  r.scale_target = !(q.four_over_six || q.eden) ? most : 1.5f * power > most ? power / 2 : power;
  return r;
}

}  // namespace mxtape
