#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/attention_loops.h"

namespace mxtape::cpu {
namespace {

// Queries of one tile. Smaller ones waste less on masked keys: T (T + queries) / 2 of T^2 products are
// computed. Larger ones make larger GEMMs: 32, 64 and 128 take the same time.
constexpr std::int64_t queries = 64;
constexpr std::int64_t lanes = 16;  // rows of scratch are whole vectors

MatrixView side(const Tensor& x, const AttentionPart& part, std::int64_t head) {
  return {x.data() + part.offset(head), DType::f32, part.row};
}
MatrixView by_columns(MatrixView view) {
  view.axis = Axis::column;
  return view;
}
Tensor scores(Backend& memory, const AttentionShape& s) {
  return memory.empty({std::min(queries, s.time), (s.keys + lanes - 1) / lanes * lanes});
}
MatrixView view(const Tensor& scores) { return {scores.raw(), DType::f32, scores.cols()}; }

/// The queries from `first` on, against the keys that the last of them sees.
AttentionTile tile_at(const AttentionShape& s, std::int64_t first, std::int64_t length, std::int64_t stride) {
  const std::int64_t end = std::min(first + queries, s.time);
  return {s.first_position + first,       end - first, s.seen(end - 1, length), stride, length,
          s.mask == AttentionMask::causal};
}

}  // namespace

void attention_by_tiles(Backend& memory, const call::Attention& call) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  const Tensor& kv = s.own_keys ? call.kv : call.qkv;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    const MatrixView k = side(kv, s.k(), key_head), v = side(kv, s.v(), key_head);
    const Tensor p = scores(memory, s);
    const std::int64_t length = attention_length(s, call.lengths, key_head / s.kv_heads);
    for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
      const MatrixView q = side(call.qkv, s.q(), head);
      float* const o = call.o.data() + s.o().offset(head);
      for (std::int64_t first = 0; first < T; first += queries) {
        const AttentionTile tile = tile_at(s, first, length, p.cols());
        gemm_block(p.data(), tile.stride, q.from(first), k, tile.rows, tile.keys, D);
        loops.softmax(p.data(), call.lse.data() + head * T + first, tile, scale);
        gemm_block(o + first * s.o().row, s.o().row, view(p), by_columns(v), tile.rows, D, tile.keys);
      }
    }
  });
}

void attention_by_tiles_backward(Backend& memory, const call::AttentionBackward& call) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  const Tensor &kv = s.own_keys ? call.kv : call.qkv, &dkv = s.own_keys ? call.dkv : call.dqkv;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    const MatrixView k = side(kv, s.k(), key_head), v = side(kv, s.v(), key_head);
    const std::int64_t length = attention_length(s, call.lengths, key_head / s.kv_heads);
    const Tensor p = scores(memory, s), ds = scores(memory, s);
    const Tensor delta = memory.empty({T});  // dP . P per query, which is dO . O
    float* const dk = dkv.data() + s.k().offset(key_head);
    float* const dv = dkv.data() + s.v().offset(key_head);
    // What the last tile of the first head does not see, no tile does: it overwrites the keys it sees.
    for (float* const sums : {dk, dv})
      for (std::int64_t row = s.seen(T - 1, length); row < s.keys; ++row)
        std::fill_n(sums + row * s.k().row, D, 0.0f);
    Write write = Write::overwrite;
    for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
      const MatrixView q = side(call.qkv, s.q(), head);
      const MatrixView d_o = side(call.d_o, s.o(), head);
      loops.row_dots(delta.data(), call.d_o.data() + s.o().offset(head), s.o().row,
                     call.o.data() + s.o().offset(head), s.o().row, T, D);
      float* const dq = call.dqkv.data() + s.q().offset(head);
      // From the last tile to the first, of which each adds to the keys it sees.
      for (std::int64_t first = (T - 1) / queries * queries; first >= 0; first -= queries) {
        const AttentionTile tile = tile_at(s, first, length, p.cols());
        const MatrixView d_o_tile = d_o.from(first), q_tile = q.from(first);
        gemm_block(p.data(), tile.stride, q_tile, k, tile.rows, tile.keys, D);
        loops.softmax_again(p.data(), call.lse.data() + head * T + first, tile, scale);
        gemm_block(dv, s.v().row, by_columns(view(p)), by_columns(d_o_tile), tile.keys, D, tile.rows, write);
        gemm_block(ds.data(), tile.stride, d_o_tile, v, tile.rows, tile.keys, D);
        loops.softmax_backward(ds.data(), p.data(), delta.data() + first, tile, scale);
        gemm_block(dq + first * s.q().row, s.q().row, view(ds), by_columns(k), tile.rows, D, tile.keys);
        gemm_block(dk, s.k().row, by_columns(view(ds)), by_columns(q_tile), tile.keys, D, tile.rows, write);
        write = Write::accumulate;
      }
    }
  });
}

}  // namespace mxtape::cpu
