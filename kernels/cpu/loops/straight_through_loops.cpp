#include "kernels/cpu/loops/straight_through_loops.h"

#include "kernels/cpu/loops/for_blocks.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void mask(const TileGradients& g, const Tile& x, Axis axis, int along, TileScales scales,
          const BlockRule& rule) {
  const float highest = rule.grid.highest, lowest = rule.grid.lowest;
  for_elements(x, axis, along, scales,
               [&](int r, std::int64_t c, auto part, const f32x16& inverse, const f32x16&) {
                 const std::int64_t i = r * x.stride + c;
                 const f32x16 scaled = part.load(x.x + i) * inverse;
                 const i32x16 beyond = (scaled > highest) | (scaled < lowest);
                 part.store(g.dx + i, part.load(g.dy + i) * select(beyond, all(0), all(1)));
               });
}

}  // namespace

extern const StraightThroughLoops straight_through_loops{mask};

}  // namespace mxtape::cpu::MXT_TIER
