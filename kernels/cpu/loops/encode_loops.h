#pragma once
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu {

/// Codes and scales of a whole tensor (kernels/gemm_codes.h), of which a tile starts at a line and depth.
struct TileCodes {
  std::int8_t* codes;
  float* scales;
  std::int64_t panel_codes, panel_scales;  ///< from a panel to the next
  std::int64_t line, k;                    ///< multiples of 4 and of 16
  float unit;                              ///< what code 1 is worth before the scale
};

/// The loop of quantize that writes codes, rounded as QuantizeLoops rounds. It writes zeros up to the next
/// whole group of codes and for the missing lines of a group of four or, along columns, of a panel. Tiles
/// with blocks along rows start at every fourth line.
struct EncodeLoops {
  void (*encode)(const TileCodes&, const Tile&, Axis, int along, TileScales, const BlockRule&, bool exact,
                 TileDraws);
};

MXT_TIER_TABLE(EncodeLoops, encode_loops)

}  // namespace mxtape::cpu
