#pragma once
#include "kernels/cuda/device.cuh"

/// Tiles of bf16 in shared memory and their products on tensor cores, as attention needs them: a warp keeps
/// 16 rows of a product in the layout of mma_bf16()'s d, where 8 columns are one `Part`. The layout of two
/// neighbouring parts is that of an a, so that a product can be a factor of the next without leaving the
/// registers.
namespace mxtape::cuda {

inline constexpr int attention_threads = 128;
inline constexpr int attention_warps = attention_threads / warp_lanes;

using Part = float[4];            // 16 rows, 8 columns: mma_bf16()'s d
using Factor = std::uint32_t[4];  // 16 rows, 16 columns: its a

/// `rows` rows of W numbers, W a multiple of 64. The 16-byte chunks of a row are permuted by its number, so
/// that the same chunk of 8 rows in a row, what the tile loads below read at a time, is in different banks.
template <int W>
struct SharedTile {
  bf16* base;
  __device__ static int offset(int row, int index) { return row * W + (index ^ (row & 7)) * 8; }
  __device__ bf16* chunk(int row, int index) const { return base + offset(row, index); }
  /// What lies `even` chunks and 8 `eights` rows on from an offset of chunk 0 or 1: as an exclusive or, it
  /// needs no register of its own for each.
  __device__ const bf16* from(int offset, int even, int eights) const {
    return base + (offset ^ even * 8) + eights * 8 * W;
  }
};

/// A head's matrix [T, width] in a tensor that interleaves heads: rows are `stride` numbers apart.
struct HeadMatrix {
  const bf16* base;
  std::int64_t stride;
};

/// Starts the copy of rows first ... first + rows - 1 of x; what lies outside of [time, width] becomes 0.
/// width is a multiple of 8, and all rows start at multiples of 16 bytes. By all threads of the block.
template <int W, int rows>
__device__ void load_tile(const SharedTile<W>& tile, const HeadMatrix& x, int first, int time, int width) {
  constexpr int chunks = W / 8, step = attention_threads / chunks;
  static_assert(rows % step == 0 && step % 8 == 0);  // the permutation is that of the thread's first row
  const int row = int(threadIdx.x) / chunks, index = int(threadIdx.x) % chunks;
  const bf16* from = x.base + (first + row) * x.stride + index * 8;
  bf16* const to = tile.chunk(row, index);
#pragma unroll
  for (int k = 0; k < rows; k += step) {
    const bool inside = first + row + k < time && index * 8 < width;
    async_copy_16(to + k * W, inside ? from : x.base, inside);
    from += step * x.stride;
  }
}

/// a = rows row ... row + 15 of the tile, its columns 16 k ... 16 k + 15.
template <int W>
__device__ void load_factor(Factor& a, const SharedTile<W>& tile, int row, int k) {
  warp_load_tiles(a, tile.from(tile.offset(row + lane_id() % 16, lane_id() / 16), 2 * k, 0));
}
/// products[r] += x[r] y^T, summed over W: x[r] is rows x_row + 16 r ... of a tile, y the first 8 `parts`
/// rows of another. What is loaded of y serves all x[r]; what is loaded of x is not kept, which leaves
/// registers to products.
template <int W, int R, int parts>
__device__ void multiply_rows(Part (&products)[R][parts], const SharedTile<W>& x, int x_row,
                              const SharedTile<W>& y) {
  const int mine = y.offset(lane_id() / 16 * 8 + lane_id() % 8, lane_id() / 8 % 2);
#pragma unroll
  for (int k = 0; k < W / 16; ++k) {
    Factor factors[R];
#pragma unroll
    for (int r = 0; r < R; ++r) load_factor(factors[r], x, x_row + 16 * r, k);
#pragma unroll
    for (int n = 0; n < parts; n += 2) {
      std::uint32_t y_tiles[4];
      warp_load_tiles(y_tiles, y.from(mine, 2 * k, n));
#pragma unroll
      for (int r = 0; r < R; ++r) {
        mma_bf16(products[r][n], factors[r], {y_tiles[0], y_tiles[1]});
        mma_bf16(products[r][n + 1], factors[r], {y_tiles[2], y_tiles[3]});
      }
    }
  }
}

/// products[r] += x[r] y, summed over the tile's first 16 `factors` rows.
template <int W, int R, int factors>
__device__ void multiply_columns(Part (&products)[R][W / 8], const Factor (&x)[R][factors],
                                 const SharedTile<W>& y) {
  const int mine = y.offset(lane_id() % 16, lane_id() / 16);
#pragma unroll
  for (int k = 0; k < factors; ++k)
#pragma unroll
    for (int n = 0; n < W / 8; n += 2) {
      std::uint32_t y_tiles[4];
      warp_load_tiles_transposed(y_tiles, y.from(mine, n, 2 * k));
#pragma unroll
      for (int r = 0; r < R; ++r) {
        mma_bf16(products[r][n], x[r][k], {y_tiles[0], y_tiles[1]});
        mma_bf16(products[r][n + 1], x[r][k], {y_tiles[2], y_tiles[3]});
      }
    }
}

/// The products as factors, rounded to bf16.
template <int R, int parts>
__device__ void round_to_factors(Factor (&x)[R][parts / 2], const Part (&products)[R][parts]) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int k = 0; k < parts / 2; ++k) {
      const Part &left = products[r][2 * k], &right = products[r][2 * k + 1];
      x[r][k][0] = bf16_pair(left[0], left[1]);
      x[r][k][1] = bf16_pair(left[2], left[3]);
      x[r][k][2] = bf16_pair(right[0], right[1]);
      x[r][k][3] = bf16_pair(right[2], right[3]);
    }
}

/// Where element `i` of a part is: rows from the warp's first, columns from the part's first.
__device__ inline int row_in_part(int i) { return lane_id() / 4 + i / 2 * 8; }
__device__ inline int column_in_part(int i) { return lane_id() % 4 * 2 + i % 2; }

template <int R, int parts>
__device__ void clear(Part (&products)[R][parts]) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int n = 0; n < parts; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) products[r][n][i] = 0;
}

__device__ inline void store_pair(float* y, float low, float high) {
  *reinterpret_cast<float2*>(y) = make_float2(low, high);
}
__device__ inline void store_pair(bf16* y, float low, float high) {
  *reinterpret_cast<std::uint32_t*>(y) = bf16_pair(low, high);
}

/// Rows of a product, times a factor per row (of rows g and g + 8), to rows first ... of y, `stride` numbers
/// apart; rows from `time` and columns from `width` on are left out.
template <int W, class T>
__device__ void store_rows(T* y, std::int64_t stride, const Part (&products)[W / 8], float upper, float lower,
                           int first, int time, int width) {
#pragma unroll
  for (int n = 0; n < W / 8; ++n) {
    const int column = 8 * n + column_in_part(0), row = first + row_in_part(0);
    if (column >= width) continue;
    if (row < time) store_pair(y + row * stride + column, products[n][0] * upper, products[n][1] * upper);
    if (row + 8 < time)
      store_pair(y + (row + 8) * stride + column, products[n][2] * lower, products[n][3] * lower);
  }
}

/// Sum, largest value over the four lanes that share the rows of a part.
__device__ inline float row_sum(float x) {
  x += warp_xor(x, 1);
  return x + warp_xor(x, 2);
}
__device__ inline float row_max(float x) {
  float other = warp_xor(x, 1);
  x = other > x ? other : x;
  other = warp_xor(x, 2);
  return other > x ? other : x;
}

}  // namespace mxtape::cuda
