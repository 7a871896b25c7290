#pragma once
// For *_loops.cpp only: which rounding, length of blocks and width of codes a loop is compiled for.
#include <type_traits>

#include "formats/scale_of_block.h"
#include "kernels/cpu/loops/simd_round.h"

namespace mxtape::cpu::MXT_TIER {

/// Calls run(n) with the length, `shortest` or 16 to 64, as a constant: loops over two vectors cost more than
/// what is in them.
template <int shortest, class Run>
MXT_LANES void with_length(int along, const Run& run) {
  if constexpr (shortest == 8)
    if (along == 8) return run(std::integral_constant<int, 8>{});
  if (along == 16) return run(std::integral_constant<int, 16>{});
  if (along == 32) return run(std::integral_constant<int, 32>{});
  run(std::integral_constant<int, 64>{});
}

/// Calls run(bits), known to the compiler for the widths of the presets.
template <class Run>
MXT_LANES void with_bits(int bits, const Run& run) {
  if (bits == 4) return run(std::integral_constant<int, 4>{});
  if (bits == 6) return run(std::integral_constant<int, 6>{});
  if (bits == 8) return run(std::integral_constant<int, 8>{});
  run(bits);
}

/// Calls run(round) with the rounding of `rule`, which is not stochastic.
template <class Run>
MXT_LANES void with_deterministic_rounding(const BlockRule& rule, const Run& run) {
  if (rule.rounding == Rounding::even && !rule.grid.even_code && rule.grid.mantissa_bits < 22)
    return run(NearestEven{rule.grid});
  run(Deterministic{rule.grid, rule.correction});
}
template <class Run>
MXT_LANES void with_rounding(const BlockRule& rule, const float* averages, const Run& run) {
  if (rule.ema) return run(ByAverage{rule.grid, averages});
  if (rule.rounding == Rounding::stochastic) return run(Stochastic{rule.grid, rule.sr_bits});
  with_deterministic_rounding(rule, run);
}
/// The same with round_scale() of formats that have not f32's exponents.
template <class Run>
MXT_LANES void with_scale_rounding(const BlockRule& rule, ScaleRounding rounding, const Run& run) {
  if (rounding == ScaleRounding::even) return run(NearestEven{rule.scale_grid});
  if (rounding == ScaleRounding::stochastic) return run(StochasticExact{rule.scale_grid, rule.sr_bits});
  run(Deterministic{rule.scale_grid, rounding == ScaleRounding::up ? Correction{0, -1} : Correction{1, 0}});
}

}  // namespace mxtape::cpu::MXT_TIER
