#pragma once
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu {

/// Gradients of a tile's elements, rows as far apart as the tile's; dx may be dy.
struct TileGradients {
  float* dx;
  const float* dy;
};

/// The loops of gradients through a rounding.
struct StraightThroughLoops {
  /// ste=mask: dx = dy times straight_through_factor() (formats/straight_through.h).
  void (*mask)(const TileGradients&, const Tile& x, Axis, int along, TileScales, const BlockRule&);
};

MXT_TIER_TABLE(StraightThroughLoops, straight_through_loops)

}  // namespace mxtape::cpu
