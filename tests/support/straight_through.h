#pragma once
#include "formats/straight_through.h"

namespace mxtape::test {

/// The gradients through quantize_reference(x, q, key), by the definition.
inline void straight_through_reference(float* dx, const float* dy, const float* x, std::int64_t rows,
                                       std::int64_t cols, Axis axis, const Quantizer& q,
                                       const StraightThrough& ste, const DrawKey& key) {
  const BlockRule rule = block_rule(q);
  StraightThroughSink sink{dx, dy, x, rule, ste};
  quantize_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return draw_bits(key, std::uint64_t(i), q.sr_bits); },
      sink);
}

}  // namespace mxtape::test
