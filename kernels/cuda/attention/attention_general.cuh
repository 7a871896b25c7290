#pragma once
#include <cmath>

#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

/// Tiles of 64 x 64 in f32 on the ordinary cores, for attention of any width. Of a product, thread (y, x) =
/// (i / 16, i % 16) has the rows y + 16 r and, of scores, the columns x + 16 c, of outputs, the columns 4 x +
/// c.
namespace mxtape::cuda {

inline constexpr int general_threads = 256, general_rows = 64;

// Distances of rows in shared memory: multiples of 4, and reads of 16 bytes by 8 lanes are in different
// banks.
inline constexpr int general_depth = 32;  // columns of a head that are in shared memory at a time
inline constexpr int depth_pitch = general_depth + 4, score_pitch = general_rows + 4;

/// 4 x 4 numbers of a thread.
struct ScoreTile {
  float v[4][4] = {};
};

struct GeneralShared {
  union {
    struct {
      float x[general_rows * depth_pitch], y[general_rows * depth_pitch];
    };
    float right[general_rows * score_pitch];
  };
  float scores[general_rows * score_pitch];
};

/// A head's matrix [time, width], rows `stride` numbers apart.
template <class T>
struct GeneralMatrix {
  const T* base;
  std::int64_t stride;
  int time, width;
  __device__ float at(int row, int column) const {
    return row < time && column < width ? value_at(base, row * stride + column) : 0.0f;
  }
};

__device__ inline int general_y() { return int(threadIdx.x) / 16; }
__device__ inline int general_x() { return int(threadIdx.x) % 16; }

/// An operand of a product: rounded to bf16 or as it is.
template <bool narrow>
__device__ float operand(float x) {
  return narrow ? to_f32(to_bf16(x)) : x;
}

__device__ inline float4 four_at(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline float dot(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/// The dot products of rows x_first ... + 63 of x with rows y_first ... + 63 of y.
template <bool narrow, class T>
__device__ ScoreTile general_dots(GeneralShared& shared, const GeneralMatrix<T>& x, int x_first,
                                  const GeneralMatrix<T>& y, int y_first) {
  ScoreTile s;
  for (int depth = 0; depth < x.width; depth += general_depth) {
    block_sync();  // all are done with what is there
    for (int i = int(threadIdx.x); i < general_rows * general_depth; i += general_threads) {
      const int row = i / general_depth, column = i % general_depth;
      shared.x[row * depth_pitch + column] = operand<narrow>(x.at(x_first + row, depth + column));
      shared.y[row * depth_pitch + column] = operand<narrow>(y.at(y_first + row, depth + column));
    }
    block_sync();
#pragma unroll
    for (int d = 0; d < general_depth; d += 4) {
      float4 left[4], right[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        left[k] = four_at(shared.x + (general_y() + 16 * k) * depth_pitch + d);
        right[k] = four_at(shared.y + (general_x() + 16 * k) * depth_pitch + d);
      }
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) s.v[r][c] = dot(left[r], right[c], s.v[r][c]);
    }
  }
  return s;
}

/// sums += s y, for the 64 columns of y from first_column on: s has the score layout, sums the output layout.
template <bool narrow, class T>
__device__ void general_add_product(GeneralShared& shared, ScoreTile& sums, const ScoreTile& s,
                                    const GeneralMatrix<T>& y, int y_first, int first_column) {
  block_sync();
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      shared.scores[(general_y() + 16 * r) * score_pitch + general_x() + 16 * c] = operand<narrow>(s.v[r][c]);
  for (int i = int(threadIdx.x); i < general_rows * general_rows; i += general_threads) {
    const int row = i / general_rows, column = i % general_rows;
    shared.right[row * score_pitch + column] = operand<narrow>(y.at(y_first + row, first_column + column));
  }
  block_sync();
#pragma unroll 4
  for (int k = 0; k < general_rows; k += 4) {
    float4 left[4], right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[i] = four_at(shared.scores + (general_y() + 16 * i) * score_pitch + k);
      right[i] = four_at(shared.right + (k + i) * score_pitch + 4 * general_x());
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float s_row[4] = {left[r].x, left[r].y, left[r].z, left[r].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums.v[r][0] = fmaf(s_row[i], right[i].x, sums.v[r][0]);
        sums.v[r][1] = fmaf(s_row[i], right[i].y, sums.v[r][1]);
        sums.v[r][2] = fmaf(s_row[i], right[i].z, sums.v[r][2]);
        sums.v[r][3] = fmaf(s_row[i], right[i].w, sums.v[r][3]);
      }
    }
  }
}

/// What a block of the grid (tiles of 64 of a part's rows, groups of 64 columns, its heads) works on.
struct GeneralPlace {
  std::int64_t head;
  int first, first_column;

  __device__ explicit GeneralPlace(const AttentionPart& part) {
    const unsigned tiles = unsigned((part.rows + general_rows - 1) / general_rows);
    const unsigned groups = unsigned((part.width + general_rows - 1) / general_rows);
    first = int(blockIdx.x % tiles) * general_rows;
    first_column = int(blockIdx.x / tiles % groups) * general_rows;
    head = blockIdx.x / tiles / groups;
  }
  template <class T>
  __device__ static GeneralMatrix<T> matrix(const T* x, const AttentionPart& part, std::int64_t head) {
    return {x + part.offset(head), part.row, int(part.rows), int(part.width)};
  }
  /// Rows of sums, times `factors` [4], to rows first ... of the head's part of y.
  template <class T>
  __device__ void store(T* y, const AttentionPart& part, const ScoreTile& sums,
                        const float (&factors)[4]) const {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = first + general_y() + 16 * r, column = first_column + 4 * general_x() + c;
        if (row < part.rows && column < part.width)
          store_at(y, part.offset(head) + row * part.row + column, sums.v[r][c] * factors[r]);
      }
  }
};
/// A block for each tile of a part of `batch` sequences.
inline Launch general_launch(std::int64_t batch, const AttentionPart& part) {
  const auto count = [](std::int64_t n) { return (n + general_rows - 1) / general_rows; };
  return {blocks_for(batch * part.heads * count(part.rows) * count(part.width), 1), general_threads,
          sizeof(GeneralShared)};
}

/// f(a null pointer to the element type, whether operands are rounded to bf16 as std::bool_constant).
template <class F>
void with_arithmetic(DType activations, DType operands, const F& f) {
  with_type(activations, [&]<class T>(T* type) {
    operands == DType::bf16 ? f(type, std::true_type{}) : f(type, std::false_type{});
  });
}

}  // namespace mxtape::cuda
