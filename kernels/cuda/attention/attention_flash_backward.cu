#include <cmath>

#include "kernels/cuda/attention/attention_flash.cuh"
#include "kernels/cuda/attention/attention_operands.h"

namespace mxtape::cuda {
namespace {

constexpr int tile_rows = 16 * attention_warps;  // what a block is given: each warp has 16 keys or queries

/// Rows of the tiles that it goes over. At width 128 the sums need so many registers that scores of 32 fit.
template <int W>
constexpr int step_rows = W <= 64 ? 64 : 32;

/// Shared memory: two tiles that stay, and `moving_tiles` of the other side, twice; lse and delta of the
/// latter's rows.
template <int W, int moving_tiles>
struct Shared {
  static constexpr int step = step_rows<W>, tiles = W * (2 * tile_rows + 2 * moving_tiles * step);
  static constexpr std::size_t bytes = sizeof(bf16) * tiles + sizeof(float) * 4 * step;
  bf16* const base;
  __device__ SharedTile<W> held(int which) const { return {base + W * tile_rows * which}; }
  __device__ SharedTile<W> moving(int which, int stage) const {
    return {base + W * (2 * tile_rows + step * (moving_tiles * stage + which))};
  }
  __device__ float* lse(int stage) const { return reinterpret_cast<float*>(base + tiles) + step * stage; }
  __device__ float* delta(int stage) const { return lse(stage) + 2 * step; }
};

/// Tiles that move: with blocks an operand of the scores, cut along D, is another one where it is summed over
/// rows.
template <bool blocks>
constexpr int moving_queries = blocks ? 4 : 2;  // Q and dO for scores; for sums
template <bool blocks>
constexpr int moving_keys = blocks ? 3 : 2;  // K and V for scores; K for sums

/// A head's matrix of `other`, which lies as `one` does, whose matrix is known.
__device__ inline HeadMatrix beside(const HeadMatrix& matrix, const Heads& one, const Heads& other) {
  return {other.base + (matrix.base - one.base), matrix.stride};
}

/// P and dS as factors: in blocks, or rounded to bf16.
template <bool blocks, int parts, class Draw>
__device__ void make_factors(Factor (&y)[1][parts / 2], const Part (&x)[1][parts], const ScoreRounding& how,
                             const Draw& draw) {
  if constexpr (blocks)
    round_scores(y[0], x[0], how, draw);
  else
    round_to_factors(y, x);
}

// A block takes a tile of keys and goes over the queries that see it, of one head that reads them after the
// other. Products have keys as rows: S^T = K Q^T
// and dP^T = V dO^T, so that P^T and dS^T are factors of dV = P^T dO and dK = dS^T Q as they are.
template <int W, bool blocks, class T>
__global__ void __launch_bounds__(attention_threads, 2) keys_kernel(T* dqkv, BackwardInputs in) {
  constexpr int step = step_rows<W>;
  const FlashPlace at(in.shape, tile_rows);
  const int time = int(in.shape.time), width = int(in.shape.width), first_key = at.tile * tile_rows;
  const int group = int(in.shape.group());
  const std::int64_t first_head = at.head * group;
  const Shared<W, moving_queries<blocks>> shared{dynamic_shared<bf16>()};
  const SharedTile<W> k_tile = shared.held(0), v_tile = shared.held(1);
  const auto load_queries = [&](std::int64_t head, int first, int stage) {
    const HeadMatrix q = query_matrix(in.q, in.shape, head), d_o = query_matrix(in.d_o, in.shape, head);
    load_tile<W, step>(shared.moving(0, stage), q, first, time, width);
    load_tile<W, step>(shared.moving(1, stage), d_o, first, time, width);
    if constexpr (blocks) {
      load_tile<W, step>(shared.moving(2, stage), beside(q, in.q, in.q_sum), first, time, width);
      load_tile<W, step>(shared.moving(3, stage), beside(d_o, in.d_o, in.d_o_sum), first, time, width);
    }
    const int query = first + int(threadIdx.x) % step;
    const float* const from = int(threadIdx.x) < step ? in.lse : in.delta;
    float* const to = int(threadIdx.x) < step ? shared.lse(stage) : shared.delta(stage);
    if (int(threadIdx.x) < 2 * step) to[threadIdx.x % step] = query < time ? from[head * time + query] : 0.0f;
  };
  load_tile<W, tile_rows>(k_tile, key_matrix(in.k, in.shape, first_head), first_key, time, width);
  load_tile<W, tile_rows>(v_tile, key_matrix(in.v, in.shape, first_head), first_key, time, width);
  load_queries(first_head, first_key, 0);
  async_commit();

  const int warp_row = 16 * warp_id(), warp_key = first_key + warp_row;
  Part dk[1][W / 8], dv[1][W / 8];
  clear(dk), clear(dv);
  const float scale_log2 = in.scale * log2_e;

  // Tiles of queries from first_key on, for each head.
  const int tiles = (time - first_key + step - 1) / step;
  int head_in_group = 0, first_query = first_key;
  for (int left = group * tiles, stage = 0; left > 0; --left, stage ^= 1) {
    async_wait<0>();
    block_sync();
    const std::int64_t head = first_head + head_in_group;
    const int this_query = first_query;
    first_query += step;
    if (first_query >= time) first_query = first_key, ++head_in_group;
    if (left > 1) load_queries(first_head + head_in_group, first_query, stage ^ 1);
    async_commit();
    if (this_query + step - 1 < warp_key) continue;  // sees none of this warp's keys
    const SharedTile<W> q_tile = shared.moving(0, stage), d_o_tile = shared.moving(1, stage);
    const SharedTile<W> q_sum = blocks ? shared.moving(2, stage) : q_tile,
                        d_o_sum = blocks ? shared.moving(3, stage) : d_o_tile;
    const auto draw = [&](const ScoreRounding& how) {
      return [&](BlockDraws& draws, int block) {
        const DrawKey key = now(how.draws);
        const std::int64_t query = head * time + this_query + 32 * block;
        draw_along_rows(draws, how, key, key.first_element + std::uint64_t(query * time + warp_key),
                        std::uint64_t(time));
      };
    };
    const float *const lse = shared.lse(stage), *const delta = shared.delta(stage);
    const bool masked = this_query < warp_key + 15 || this_query + step > time;

    Factor narrow[1][step / 16];
    Part p[1][step / 8], ds[1][step / 8];
    clear(p), clear(ds);
    multiply_rows(p, k_tile, warp_row, q_tile);
    const auto to_probabilities = [&](auto masks) {
#pragma unroll
      for (int n = 0; n < step / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * n + column_in_part(i), query = this_query + column;
          const bool seen = !masks.value || (query >= warp_key + row_in_part(i) && query < time);
          p[0][n][i] = probability(p[0][n][i], scale_log2, lse[column], seen);
        }
    };
    masked ? to_probabilities(std::true_type{}) : to_probabilities(std::false_type{});
    make_factors<blocks>(narrow, p, in.dv_p, draw(in.dv_p));
    multiply_columns<W>(dv, narrow, d_o_sum);

    multiply_rows(ds, v_tile, warp_row, d_o_tile);
#pragma unroll
    for (int n = 0; n < step / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        ds[0][n][i] = p[0][n][i] * (ds[0][n][i] - delta[8 * n + column_in_part(i)]);
        if constexpr (blocks) ds[0][n][i] *= in.scale;
      }
    make_factors<blocks>(narrow, ds, in.dk_ds, draw(in.dk_ds));
    multiply_columns<W>(dk, narrow, q_sum);
  }
  const float rest = blocks ? 1 : in.scale;  // of dS = scale P (dP - delta): what is rounded in blocks has it
  const AttentionPart k_part = in.shape.k(), v_part = in.shape.v();
  store_rows<W>(dqkv + k_part.offset(at.head), k_part.row, dk[0], rest, rest, warp_key, time, width);
  store_rows<W>(dqkv + v_part.offset(at.head), v_part.row, dv[0], 1, 1, warp_key, time, width);
}

// A block takes a tile of queries and goes over the keys that they see: dQ = dS K.
template <int W, bool blocks, class T>
__global__ void __launch_bounds__(attention_threads, 2) queries_kernel(T* dqkv, BackwardInputs in) {
  constexpr int step = step_rows<W>;
  const FlashPlace at(in.shape, tile_rows);
  const int time = int(in.shape.time), width = int(in.shape.width);
  const int first_query = (at.tiles - 1 - at.tile) * tile_rows;  // tiles that see the most keys first
  const int end = first_query + tile_rows < time ? first_query + tile_rows : time;
  const HeadMatrix k = key_matrix(in.k, in.shape, at.head), v = key_matrix(in.v, in.shape, at.head);
  const Shared<W, moving_keys<blocks>> shared{dynamic_shared<bf16>()};
  const SharedTile<W> q_tile = shared.held(0), d_o_tile = shared.held(1);
  const auto load_keys = [&](int first, int stage) {
    load_tile<W, step>(shared.moving(0, stage), k, first, time, width);
    load_tile<W, step>(shared.moving(1, stage), v, first, time, width);
    if constexpr (blocks)
      load_tile<W, step>(shared.moving(2, stage), beside(k, in.k, in.k_sum), first, time, width);
  };
  load_tile<W, tile_rows>(q_tile, query_matrix(in.q, in.shape, at.head), first_query, time, width);
  load_tile<W, tile_rows>(d_o_tile, query_matrix(in.d_o, in.shape, at.head), first_query, time, width);
  load_keys(0, 0);
  async_commit();

  const int warp_row = 16 * warp_id(), warp_query = first_query + warp_row;
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = warp_query + row_in_part(2 * half);
    lse[half] = query < time ? in.lse[at.head * time + query] : 0.0f;
    delta[half] = query < time ? in.delta[at.head * time + query] : 0.0f;
  }
  Part dq[1][W / 8];
  clear(dq);
  const float scale_log2 = in.scale * log2_e;

  for (int first_key = 0, stage = 0; first_key < end; first_key += step, stage ^= 1) {
    async_wait<0>();
    block_sync();
    if (first_key + step < end) load_keys(first_key + step, stage ^ 1);
    async_commit();
    if (first_key > warp_query + 15) continue;  // not seen by this warp's queries
    const SharedTile<W> k_tile = shared.moving(0, stage), v_tile = shared.moving(1, stage);
    const SharedTile<W> k_sum = blocks ? shared.moving(2, stage) : k_tile;
    const bool masked = first_key + step - 1 > warp_query;

    Factor narrow[1][step / 16];
    Part s[1][step / 8], ds[1][step / 8];
    clear(s), clear(ds);
    multiply_rows(s, q_tile, warp_row, k_tile);
    multiply_rows(ds, d_o_tile, warp_row, v_tile);
#pragma unroll
    for (int n = 0; n < step / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first_key + 8 * n + column_in_part(i);
        const bool seen = !masked || key <= warp_query + row_in_part(i);
        ds[0][n][i] = probability(s[0][n][i], scale_log2, lse[i / 2], seen) * (ds[0][n][i] - delta[i / 2]);
        if constexpr (blocks) ds[0][n][i] *= in.scale;
      }
    make_factors<blocks>(narrow, ds, in.dq_ds, [&](BlockDraws& draws, int block) {
      const DrawKey key = now(in.dq_ds.draws);
      const std::int64_t row = at.head * time + warp_query + lane_id() / 4;
      draw_along_columns(draws, in.dq_ds, key,
                         key.first_element + std::uint64_t(row * time + first_key + 32 * block),
                         std::uint64_t(time));
    });
    multiply_columns<W>(dq, narrow, k_sum);
  }
  const float rest = blocks ? 1 : in.scale;
  const AttentionPart part = in.shape.q();
  store_rows<W>(dqkv + part.offset(at.head), part.row, dq[0], rest, rest, warp_query, time, width);
}

template <int W, bool blocks>
void launch_both(const AttentionBackward& call, const BackwardInputs& in) {
  const auto tiles = [&](std::int64_t heads) { return flash_blocks(in.shape, heads, tile_rows); };
  const Launch of_keys{tiles(in.shape.kv_heads), attention_threads, Shared<W, moving_queries<blocks>>::bytes},
      of_queries{tiles(in.shape.heads), attention_threads, Shared<W, moving_keys<blocks>>::bytes};
  with_type(call.dqkv.dtype(), [&]<class T>(T*) {
    T* const dqkv = call.dqkv.data<T>();
    launch("attention_flash_keys", call.stream, of_keys, keys_kernel<W, blocks, T>, dqkv, in);
    launch("attention_flash_queries", call.stream, of_queries, queries_kernel<W, blocks, T>, dqkv, in);
  });
}

template <bool blocks>
void backward(const AttentionBackward& call, const BackwardInputs& in) {
  in.shape.width <= 64 ? launch_both<64, blocks>(call, in) : launch_both<128, blocks>(call, in);
}

}  // namespace

void attention_flash(const AttentionBackward& call) {
  const AttentionShape& s = call.shape;
  const Tensor qkv = as_bf16(call.backend, call.qkv), d_o = as_bf16(call.backend, call.d_o),
               delta = attention_delta(call);
  BackwardInputs in{heads_of(qkv, s.q()), heads_of(qkv, s.k()), heads_of(qkv, s.v()), heads_of(d_o, s.o())};
  in.lse = call.lse.data(), in.delta = delta.data(), in.shape = s, in.scale = 1 / std::sqrt(float(s.width));
  backward<false>(call, in);
}

void attention_blocks(const AttentionBackward& call, const AttentionQuant& quant, const ClockedKey& draws) {
  const AttentionShape& s = call.shape;
  const HeadOperands heads{call.backend, call.stream, s, quant, draws};
  // The forward pass drew the same numbers for the first of Q and of K.
  const auto q = heads.rounded(call.qkv, s.q(), {&AttentionQuant::qk_q, &AttentionQuant::dk_q});
  const auto k = heads.rounded(call.qkv, s.k(), {&AttentionQuant::qk_k, &AttentionQuant::dq_k});
  const auto v = heads.rounded(call.qkv, s.v(), {&AttentionQuant::dp_v});
  const auto d_o = heads.rounded(call.d_o, s.o(), {&AttentionQuant::dp_do, &AttentionQuant::dv_do});
  const Tensor delta = attention_delta(call);
  const auto queries = [&](const Tensor& x) { return heads_in_order(x, s.q()); };
  const auto keys = [&](const Tensor& x) { return heads_in_order(x, s.k()); };
  BackwardInputs in{queries(q[0]), keys(k[0]), keys(v[0]),     queries(d_o[0]),
                    queries(q[1]), keys(k[1]), queries(d_o[1])};
  in.lse = call.lse.data(), in.delta = delta.data(), in.shape = s, in.scale = 1 / std::sqrt(float(s.width));
  in.dv_p = score_rounding(quant.dv_p, heads.score_draws(&AttentionQuant::dv_p));
  in.dq_ds = score_rounding(quant.dq_ds, heads.score_draws(&AttentionQuant::dq_ds));
  in.dk_ds = score_rounding(quant.dk_ds, heads.score_draws(&AttentionQuant::dk_ds));
  backward<true>(call, in);
}

}  // namespace mxtape::cuda
