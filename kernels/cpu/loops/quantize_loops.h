#pragma once
#include "formats/block.h"
#include "formats/quantize.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// A window of a row-major matrix: the part of a tensor that is quantized while it sits in the cache.
struct Tile {
  const float* x;
  std::int64_t stride;
  int rows, cols;
  std::int64_t ahead = 0;  ///< from an element to one of the tile that the thread likely takes next
};

/// What the blocks of a tile are rounded with, one entry a block: BlockScale in columns.
struct TileScales {
  float* inverse;
  float* scale;
};

/// What decides about each element of a tile, rows `stride` apart; 15 more may be read: sixteen random bits,
/// or with `ema` its average, scaled as it is.
struct TileDraws {
  const std::uint16_t* bits = nullptr;
  std::int64_t stride = 0;
  const float* averages = nullptr;
};

/// bf16 values of a tile; or f32 ones, if `wide` is given.
struct TileValues {
  std::uint16_t* y;
  std::int64_t stride;
  float* wide = nullptr;
};

/// Codes and scales of a whole tensor (kernels/gemm_codes.h), of which a tile starts at a line and depth.
struct TileCodes {
  std::int8_t* codes;
  float* scales;
  std::int64_t panel_codes, panel_scales;  ///< from a panel to the next
  std::int64_t line, k;                    ///< multiples of 4 and of 16
  float unit;                              ///< what code 1 is worth before the scale
};

/// Gradients of a tile's elements; dx may be dy.
struct TileGradients {
  float* dx;
  const float* dy;
  std::int64_t stride;
};

/// The vector loops of quantize, block by block equal to the scalar definition in formats/block.h.
/// Blocks along rows: `along` elements of one row (8, 16, 32 or 64), entry r * ceil(cols / along) + b.
/// Blocks along columns: `along` elements of one column, entry b * cols + c. The last block may be shorter.
struct QuantizeLoops {
  /// Bits of the largest magnitude of x[0, count); NaN above infinity above all numbers.
  std::uint32_t (*amax)(const float* x, std::int64_t count);
  /// The same for each block of a tile.
  void (*amax_along_row)(std::uint32_t* amax, const Tile&, int along);
  void (*amax_along_column)(std::uint32_t* amax, const Tile&, int along);
  /// True if all scales are in the range in which every value is exact in bf16. Writes whole vectors: up to
  /// 15 entries beyond `count`; amax is padded likewise.
  bool (*power_of_two_scales)(TileScales, std::uint32_t* amax, int count, const BlockRule&);
  /// `draws` of the blocks' first elements, for stochastic scales; before EDEN's factor.
  bool (*floating_scales)(TileScales, std::uint32_t* amax, int count, const BlockRule&, float encode,
                          const std::uint16_t* draws);
  /// `exact`: every element times its scale is a bf16 number, so that no rounding to bf16 is needed.
  void (*round)(TileValues, const Tile&, Axis, int along, TileScales, const BlockRule&, bool exact,
                TileDraws);
  /// y, rows `stride` apart, = x + the entries of its blocks. y may be x.
  void (*add)(float* y, std::int64_t stride, const Tile& x, Axis, int along, float* of_blocks);
  /// The same of x times the entries.
  void (*multiply)(float* y, std::int64_t stride, const Tile& x, Axis, int along, float* of_blocks);
  /// The eight draws of each of 16 * vectors groups, of which one is `step` after the other.
  void (*draw)(std::uint16_t* bits, const DrawKey&, std::uint64_t group, int step, int vectors);
  /// ste=mask: dx = dy times straight_through_factor() (formats/straight_through.h).
  void (*mask)(const TileGradients&, const Tile& x, Axis, int along, TileScales, const BlockRule&);
  /// sums[c] = the sum of column c, top to bottom.
  void (*sum_columns)(float* sums, const Tile&);
};

/// How many rows and columns of a tile a block has: 8 to 64 columns, or one.
struct TileBlock {
  int rows, cols;
};

/// The vector loops of scales that take sums over their blocks' elements, and of midpoints. A block a lane,
/// so that these are added in row-major order, as scale_of_block() (formats/scale_of_block.h) adds them.
/// An entry a block, in row-major order; whole vectors of them are read.
struct BlockSumsLoops {
  /// statistic=rms: rms_in_place_of_amax() of blocks that are finite and not all zeros.
  void (*rms)(std::uint32_t* amax, const Tile&, TileBlock, const BlockRule&);
  /// Four-over-six: gives `best` the entries of `other` whose blocks err less with them.
  void (*take_better)(TileScales best, TileScales other, const Tile&, TileBlock, const BlockRule&);
  /// EDEN: scales times eden_factor(), rounded again. `draws` as floating_scales() has them. True if none
  /// becomes NaN.
  bool (*eden)(TileScales, const Tile&, TileBlock, const BlockRule&, const std::uint16_t* draws);
  /// offset=fp16: `inverse` gets what is added to elements before they are rounded, `scale` what after it.
  void (*midpoints)(TileScales, const Tile&, TileBlock);
};

/// The loop of quantize that writes codes, rounded as QuantizeLoops rounds. It writes zeros up to the next
/// whole group of codes and for the missing lines of a group of four or, along columns, of a panel. Tiles
/// with blocks along rows start at every fourth line.
struct EncodeLoops {
  void (*encode)(const TileCodes&, const Tile&, Axis, int along, TileScales, const BlockRule&, bool exact,
                 TileDraws);
};

MXT_TIER_TABLE(QuantizeLoops, quantize_loops)
MXT_TIER_TABLE(BlockSumsLoops, block_sums_loops)
MXT_TIER_TABLE(EncodeLoops, encode_loops)

}  // namespace mxtape::cpu
