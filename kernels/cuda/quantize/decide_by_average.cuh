#pragma once
#include "kernels/cuda/quantize/quantize_by_definition.h"

namespace mxtape::cuda {

/// What decides about element i, which is `value`: random bits, or with `ema` those of its average, which is
/// the value itself where the task has none.
__device__ inline std::uint32_t decision(const DefinitionTask& t, std::int64_t i, float value) {
  if (t.rule.ema) return bits_of(t.averages ? t.averages[i] : value);
  const bool random = t.rule.rounding == Rounding::stochastic;
  return random ? draw_bits(now(t.draws), std::uint64_t(i), t.rule.sr_bits) : 0;
}

}  // namespace mxtape::cuda
