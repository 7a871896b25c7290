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
};

/// What the blocks of a tile are rounded with, one entry a block: BlockScale in columns.
struct TileScales {
  float* inverse;
  float* scale;
};

/// Sixteen random bits for each element of a tile, rows `stride` apart; 15 more may be read.
struct TileDraws {
  const std::uint16_t* bits = nullptr;
  std::int64_t stride = 0;
};

/// bf16 values of a tile.
struct TileValues {
  std::uint16_t* y;
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
  /// Draws of 8 * 16 * vectors elements from element 8 * group on.
  void (*draw)(std::uint16_t* bits, const DrawKey&, std::uint64_t group, int vectors);
  /// sums[c] = the sum of column c, top to bottom.
  void (*sum_columns)(float* sums, const Tile&);
  /// Nearest even, as to_bf16().
  void (*cast)(std::uint16_t* y, const float* x, std::int64_t count);
};

MXT_TIER_TABLE(QuantizeLoops, quantize_loops)

}  // namespace mxtape::cpu
