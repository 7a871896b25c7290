#pragma once
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu {

/// The vector loops of four-over-six: which of two scales a block takes. A block a lane, so that its errors
/// are added in row-major order, as error_with() (formats/scale_of_block.h) adds them. Entries are
/// those of QuantizeLoops for blocks one element across; whole vectors of them are read and written.
struct FourOverSixLoops {
  /// Gives `best` the entries of `other` whose blocks err less with them.
  void (*take_better_along_row)(TileScales best, TileScales other, const Tile&, int along, const BlockRule&);
  void (*take_better_along_column)(TileScales best, TileScales other, const Tile&, int along,
                                   const BlockRule&);
};

MXT_TIER_TABLE(FourOverSixLoops, four_over_six_loops)

}  // namespace mxtape::cpu
