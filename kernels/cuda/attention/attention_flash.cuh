#pragma once
#include <cmath>

#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_scores.cuh"
#include "kernels/cuda/attention/attention_tiles.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

// What the kernels of attention on tensor cores share.
namespace mxtape::cuda {

inline constexpr float log2_e = 0x1.715476p+0f;

/// One operand of all its heads in bf16: matrices [T, D], strides in numbers.
struct Heads {
  const bf16* base;
  std::int64_t batch, head, row;
};
/// Where it lies in x.
inline Heads heads_of(const Tensor& x, const AttentionPart& part) {
  return {x.data<bf16>() + part.first, part.sequence, part.width, part.row};
}
/// x [B, heads of the part, T, D].
inline Heads heads_in_order(const Tensor& x, const AttentionPart& part) {
  const std::int64_t head = part.rows * part.width;
  return {x.data<bf16>(), part.heads * head, head, part.width};
}

/// The matrix of query head b H + h, of a part that query heads have, or that key heads have.
__device__ inline HeadMatrix query_matrix(const Heads& x, const AttentionShape& s, std::int64_t head) {
  return {x.base + head / s.heads * x.batch + head % s.heads * x.head, x.row};
}
__device__ inline HeadMatrix key_matrix(const Heads& x, const AttentionShape& s, std::int64_t head) {
  return {x.base + head / s.heads * x.batch + head % s.heads / s.group() * x.head, x.row};
}

/// The head and the tile of it that a block works on. Blocks of one head follow each other, so that the
/// tiles that several of them read stay in the second level cache.
struct FlashPlace {
  int tiles, tile;
  std::int64_t head;  // b H + h, or b G + g

  __device__ FlashPlace(const AttentionShape& s, int rows)
      : tiles(int((s.time + rows - 1) / rows)),
        tile(int(blockIdx.x % unsigned(tiles))),
        head(blockIdx.x / unsigned(tiles)) {}
};
/// Blocks for `heads` heads of each sequence.
inline unsigned flash_blocks(const AttentionShape& s, std::int64_t heads, int rows) {
  return blocks_for(s.batch * heads * ((s.time + rows - 1) / rows), 1);
}

/// P = e^(scale s - lse); 0 where the query does not see the key.
__device__ inline float probability(float s, float scale_log2, float lse, bool seen) {
  const float exponent = fmaf(s, scale_log2, -lse * log2_e);
  return exp2_fast(seen ? exponent : -INFINITY);
}

/// The softmax of a warp's 16 queries as far as their keys have come: [0] is row g, [1] row g + 8.
struct Running {
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // over this lane's columns
};

/// Masked scores become minus infinity: keys that a query does not see, and those from T on with them.
template <int parts>
__device__ void mask(Part (&s)[parts], int first_query, int first_key) {
#pragma unroll
  for (int n = 0; n < parts; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (first_key + 8 * n + column_in_part(i) > first_query + row_in_part(i)) s[n][i] = -INFINITY;
}

/// Scores become e^(scale (s - top)), and sums that were relative to the last top are made relative to this
/// one by `corrections`. The first tile has key 0, which every query sees, so top is finite from there on.
template <int parts>
__device__ void online_softmax(Part (&s)[parts], Running& running, float (&corrections)[2],
                               float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = running.top[half];
#pragma unroll
    for (int n = 0; n < parts; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) top = s[n][i] > top ? s[n][i] : top;
    top = row_max(top);
    corrections[half] = exp2_fast((running.top[half] - top) * scale_log2);
    running.top[half] = top;
    const float shift = -top * scale_log2;
    float sum = running.sum[half] * corrections[half];
#pragma unroll
    for (int n = 0; n < parts; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = exp2_fast(fmaf(s[n][i], scale_log2, shift));
        sum += s[n][i];
      }
    running.sum[half] = sum;
  }
}

/// The tiles of the kernels of the forward pass.
template <int W>
struct ForwardTiles {
  static constexpr int keys = 64;
  /// Queries of a warp, in units of 16: 32 halve what is read of K and V from shared memory; at width 128 the
  /// registers do not hold them.
  static constexpr int query_units = W <= 64 ? 2 : 1;
  static constexpr int queries = 16 * query_units * attention_warps;
  static constexpr std::size_t shared_bytes = sizeof(bf16) * W * (queries + 4 * keys);
};

/// What the kernels of the forward pass read: Q and K of the scores, V of the sums.
struct ForwardInputs {
  Heads q, k, v;
  AttentionShape shape;
  float scale;
};

/// Those of the backward pass. Sums have operands of their own, and P and dS roundings, only with blocks.
struct BackwardInputs {
  Heads q, k, v, d_o;                 // of S and dP
  Heads q_sum{}, k_sum{}, d_o_sum{};  // of dK, dQ and dV
  const float *lse = nullptr, *delta = nullptr;
  AttentionShape shape{};
  float scale = 1;
  ScoreRounding dv_p{}, dq_ds{}, dk_ds{};
};

/// x itself, or a copy of it rounded to bf16.
Tensor as_bf16(Backend&, const Tensor& x);

}  // namespace mxtape::cuda
