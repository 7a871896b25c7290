#include <cmath>

#include "kernels/cuda/attention/attention_flash.cuh"
#include "kernels/cuda/attention/attention_operands.h"
#include "kernels/cuda/launch.h"

namespace mxtape::cuda {
namespace {

// A block takes one tile of queries of one head, and goes twice over the keys that they see: P must be
// normalised before its blocks are rounded, and so the log of the scores' sums comes first. P is then what
// the backward pass computes from it again.
template <int W, class T>
__global__ void __launch_bounds__(attention_threads, 2)
    blocks_kernel(T* o, float* lse, ForwardInputs in, ScoreRounding pv_p) {
  using Tiles = ForwardTiles<W>;
  constexpr int R = Tiles::query_units, queries = Tiles::queries, keys = Tiles::keys;
  const FlashPlace at(in.shape, queries);
  const int time = int(in.shape.time), width = int(in.shape.width);
  const int first_query = (at.tiles - 1 - at.tile) * queries;  // tiles that see the most keys first
  const int end = first_query + queries < time ? first_query + queries : time;
  const HeadMatrix k = key_matrix(in.k, in.shape, at.head), v = key_matrix(in.v, in.shape, at.head);
  const AttentionPart out = in.shape.o();
  const DrawKey key = now(pv_p.draws);

  bf16* const shared = dynamic_shared<bf16>();
  const SharedTile<W> q_tile{shared};
  const auto k_tile = [&](int stage) { return SharedTile<W>{shared + W * (queries + 2 * keys * stage)}; };
  const auto v_tile = [&](int stage) { return SharedTile<W>{k_tile(stage).base + W * keys}; };
  const int warp_row = 16 * R * warp_id(), warp_query = first_query + warp_row;
  const float scale_log2 = in.scale * log2_e;

  // Goes over the tiles of keys, the next on its way while `work` has one; S = Q K^T of those that the warp's
  // queries see is what it gets.
  const auto over_keys = [&](bool values, const auto& work) {
    const auto load = [&](int first, int stage) {
      load_tile<W, keys>(k_tile(stage), k, first, time, width);
      if (values) load_tile<W, keys>(v_tile(stage), v, first, time, width);
    };
    load(0, 0);
    async_commit();
    for (int first_key = 0, stage = 0; first_key < end; first_key += keys, stage ^= 1) {
      async_wait<0>();
      block_sync();  // the tile is there, and all are done with the one before
      if (first_key + keys < end) load(first_key + keys, stage ^ 1);
      async_commit();
      if (first_key > warp_query + 16 * R - 1) continue;  // none of this warp's queries sees it
      Part s[R][keys / 8];
      clear(s);
      multiply_rows(s, q_tile, warp_row, k_tile(stage));
      work(s, first_key, stage);
    }
    block_sync();  // before the tiles are loaded anew
  };

  load_tile<W, queries>(q_tile, query_matrix(in.q, in.shape, at.head), first_query, time, width);
  Running running[R];
  over_keys(false, [&](Part(&s)[R][keys / 8], int first_key, int) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (first_key + keys - 1 > warp_query + 16 * r) mask(s[r], warp_query + 16 * r, first_key);
      float corrections[2];
      online_softmax(s[r], running[r], corrections, scale_log2);
    }
  });
  float log_sums[R][2];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      log_sums[r][half] = running[r].top[half] * in.scale + logf(row_sum(running[r].sum[half]));
      const int query = warp_query + 16 * r + row_in_part(2 * half);
      if (query < time && lane_id() % 4 == 0) lse[at.head * time + query] = log_sums[r][half];
    }

  Part o_parts[R][W / 8];
  clear(o_parts);
  over_keys(true, [&](Part(&s)[R][keys / 8], int first_key, int stage) {
    Factor p[R][keys / 16];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = warp_query + 16 * r;
#pragma unroll
      for (int n = 0; n < keys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool seen = first_key + 8 * n + column_in_part(i) <= first + row_in_part(i);
          s[r][n][i] = probability(s[r][n][i], scale_log2, log_sums[r][i / 2], seen);
        }
      round_scores(p[r], s[r], pv_p, [&](BlockDraws& draws, int block) {
        const std::int64_t row = at.head * time + first + lane_id() / 4;
        draw_along_columns(draws, pv_p, key,
                           key.first_element + std::uint64_t(row * time + first_key + 32 * block),
                           std::uint64_t(time));
      });
    }
    multiply_columns<W>(o_parts, p, v_tile(stage));
  });
#pragma unroll
  for (int r = 0; r < R; ++r)
    store_rows<W>(o + out.offset(at.head), out.row, o_parts[r], 1, 1, warp_query + 16 * r, time, width);
}

template <int W>
void forward(const AttentionForward& call, const ForwardInputs& in, const ScoreRounding& pv_p) {
  using Tiles = ForwardTiles<W>;
  with_type(call.o.dtype(), [&]<class T>(T*) {
    launch("attention_blocks", call.stream,
           {flash_blocks(in.shape, in.shape.heads, Tiles::queries), attention_threads, Tiles::shared_bytes},
           blocks_kernel<W, T>, call.o.data<T>(), call.lse.data(), in, pv_p);
  });
}

}  // namespace

void attention_blocks(const AttentionForward& call, const AttentionQuant& quant, const ClockedKey& draws) {
  const AttentionShape& s = call.shape;
  const HeadOperands heads{call.backend, call.stream, s, quant, draws};
  const Tensor q = heads.rounded(call.qkv, s.q(), {&AttentionQuant::qk_q})[0];
  const Tensor k = heads.rounded(call.qkv, s.k(), {&AttentionQuant::qk_k})[0];
  const Tensor v = heads.rounded(call.qkv, s.v(), {&AttentionQuant::pv_v})[0];
  const ForwardInputs in{heads_in_order(q, s.q()), heads_in_order(k, s.k()), heads_in_order(v, s.v()), s,
                         1 / std::sqrt(float(s.width))};
  const ScoreRounding pv_p = score_rounding(quant.pv_p, heads.score_draws(&AttentionQuant::pv_p));
  s.width <= 64 ? forward<64>(call, in, pv_p) : forward<128>(call, in, pv_p);
}

}  // namespace mxtape::cuda
