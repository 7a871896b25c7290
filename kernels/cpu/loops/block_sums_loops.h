#pragma once
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu {

/// The vector loops of scales that take sums over their blocks' elements. A block a lane, so that these are
/// added in row-major order, as scale_of_block() (formats/scale_of_block.h) adds them. Entries are those of
/// QuantizeLoops for blocks one element across; whole vectors of them are read.
struct BlockSumsLoops {
  /// statistic=rms: rms_in_place_of_amax() of blocks that are finite and not all zeros.
  void (*rms)(std::uint32_t* amax, const Tile&, Axis, int along, const BlockRule&);
  /// Four-over-six: gives `best` the entries of `other` whose blocks err less with them.
  void (*take_better)(TileScales best, TileScales other, const Tile&, Axis, int along, const BlockRule&);
  /// EDEN: scales times eden_factor(), rounded again. `draws` as floating_scales() has them. True if none
  /// becomes NaN.
  bool (*eden)(TileScales, const Tile&, Axis, int along, const BlockRule&, const std::uint16_t* draws);
};

MXT_TIER_TABLE(BlockSumsLoops, block_sums_loops)

}  // namespace mxtape::cpu
