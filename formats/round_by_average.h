#pragma once
#include "formats/round.h"

namespace mxtape {

/// Q-EMA (TetraJet, arXiv:2502.20853, section 5.1, and its published code): of the two neighbours of x on the
/// grid, the one that is nearer to `average`, the moving average of x in the same units. With q the neighbour
/// towards zero and s the step there: q + s if |average| with x's sign is at least q + s / 2, else q. So a
/// weight that swings around the middle between two values keeps one of them. An x on the grid has itself and
/// the next value away from zero for neighbours. Zeros stay; NaN stays; an average that is NaN decides for q.
MXT_HD constexpr float round_by_average(Grid g, float x, float average) {
  if (x == 0) return x;
  const std::uint32_t sign = bits_of(x) & 0x80000000u;
  const float lower = float_of(bits_of(round_to(g, correction_of(Rounding::zero), x)) & 0x7fffffffu);
  const float step = power_of_two(quantum_exponent(g, lower));
  const float limit = sign != 0 ? -g.lowest : g.highest;
  const float with_sign = sign != 0 ? -average : average;
  const float rounded = with_sign >= lower + step / 2 && lower + step <= limit ? lower + step : lower;
  return float_of(bits_of(rounded) | sign);
}

static_assert(round_by_average(grid_of(e2m1), 2.4f, 2.6f) == 3 &&
              round_by_average(grid_of(e2m1), -2.6f, -2.4f) == -2 &&
              round_by_average(grid_of(e2m1), 5, 9) == 6 && round_by_average(grid_of(e2m1), 6, 9) == 6);

}  // namespace mxtape
