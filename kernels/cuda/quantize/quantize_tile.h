#pragma once
#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/keys.h"
#include "kernels/cuda/quantize/round.h"

namespace mxtape::cuda {

inline constexpr int tile_side = 32;  // a warp's tile; also the rows whose column sums are added up first

/// One copy of a tile: what its blocks are rounded with.
struct TileCopy {
  bf16* values;
  const float* encode;  ///< [1] of floating scales, else null
  BlockRule rule;
  FastGrid grid;
  int along, across;
};

enum class TileRounding : std::uint8_t { even, stochastic, any };

/// Where the rows of x lie if not one below the other: in matrices that a tensor holds side by side, as
/// heads, and these one below the other, as sequences. The rows of the task, and of its copies, are those of
/// one matrix after the other's. Distances in elements.
struct RowLayout {
  std::int64_t rows = 0;  ///< of a matrix, a multiple of 32; 0: all rows are one below the other
  std::int64_t side_by_side = 1;
  std::int64_t to_next_row = 0, to_next_matrix = 0, to_below = 0;
};

/// Everything that the tile kernel makes of x [rows, cols] in one pass. Copies of one task have the same
/// rounding, and stochastic ones the same number of bits.
struct TileTask {
  const void* x;
  DType dtype;
  std::int64_t rows, cols;
  RowLayout layout;  ///< of x; quantize_pairs() alone takes another than the plain one
  TileRounding rounding;
  TileCopy row_blocks;     ///< Axis::row; no values: not wanted
  TileCopy column_blocks;  ///< Axis::column
  ClockedKey draws;
  RoundKeys round_keys;  ///< of draws' seed
  int draw_bits;         ///< of each stochastic rounding; 0: there is none
  float* strip_sums;     ///< [ceil(rows / 32), cols], or null
};

/// True if the tile kernel can do q: bf16 values, blocks of 16 or 32 elements or tiles of them, with
/// power-of-two or floating scales.
bool fits_tiles(const Quantizer& q);
TileCopy tile_copy(const Quantizer& q, bf16* values, const float* encode);
TileRounding tile_rounding(const Quantizer& q);

/// A task without copies.
TileTask tile_task(const Tensor& x, const ClockedKey& draws);
/// True if one task can make both.
bool share_a_pass(const Rounded& a, const Rounded& b);
void add_copy(TileTask& task, const Rounded& copy, const float* encode);

void quantize_tiles(cudaStream_t stream, const TileTask& task);

/// The same with fewer instructions for bf16 and power-of-two scales; quantize_tiles() calls it where it
/// fits.
bool fits_pairs(const TileTask& task);
void quantize_pairs(cudaStream_t stream, const TileTask& task);

}  // namespace mxtape::cuda
