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

/// The loops of quantize that write codes, rounded as QuantizeLoops rounds. They write zeros up to the next
/// whole group of codes and for the missing lines of a group of four or, along columns, of a panel.
struct EncodeLoops {
  /// Tiles that start at every fourth line.
  void (*along_row)(const TileCodes&, const Tile&, int along, TileScales, const BlockRule&, bool exact,
                    TileDraws);
  void (*along_column)(const TileCodes&, const Tile&, int along, TileScales, const BlockRule&, bool exact,
                       TileDraws);
};

MXT_TIER_TABLE(EncodeLoops, encode_loops)

}  // namespace mxtape::cpu
