#include "kernels/cpu/loops/rotary_loops.h"

#include "kernels/cpu/loops/for_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void turn(float* y, const float* x, const float* cos, const float* sin, std::int64_t heads, std::int64_t D,
          bool back) {
  const std::int64_t half = D / 2;
  const float sign = back ? -1.0f : 1.0f;
  for (std::int64_t h = 0; h < heads; ++h, x += D, y += D)
    for_lanes(half, [&](std::int64_t i, auto l) {
      const f32x16 c = l.load(cos + i), s = l.load(sin + i) * sign;
      const f32x16 first = l.load(x + i), second = l.load(x + half + i);
      l.store(y + i, first * c - second * s);
      l.store(y + half + i, second * c + first * s);
    });
}

}  // namespace

extern const RotaryLoops rotary_loops{turn};

}  // namespace mxtape::cpu::MXT_TIER
