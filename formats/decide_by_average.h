#pragma once
#include "formats/block.h"

namespace mxtape {

/// What decides about element i: random bits, or with `ema` those of its average.
MXT_HD constexpr std::uint32_t decision(const Quantizer& q, const DrawKey& key, std::int64_t i,
                                        const float* averages) {
  return q.ema ? bits_of(averages[i]) : draw_bits(key, std::uint64_t(i), q.sr_bits);
}

}  // namespace mxtape
