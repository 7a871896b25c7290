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
// computed. Below 64 the GEMMs of oneDNN lose more than that.
constexpr std::int64_t queries = 64;
constexpr std::int64_t lanes = 16;  // rows of scratch are whole vectors

/// Heads' matrices as sides of GEMMs: in place, or from f32 to bf16.
class Operands {
 public:
  Operands(Backend& memory, const AttentionShape& s, DType dtype, std::int64_t count)
      : room_(std::max(s.time, s.keys) * s.width), dtype_(dtype) {
    if (dtype == DType::bf16) copies_ = memory.empty({count, room_}, DType::bf16);
  }
  /// `place` < count is where the copy goes.
  MatrixView take(const Tensor& x, const AttentionPart& part, std::int64_t head, std::int64_t place) const {
    if (x.dtype() == dtype_)
      return {static_cast<const char*>(x.raw()) + part.offset(head) * size_of(dtype_), dtype_, part.row};
    bf16* const copy = copies_.data<bf16>() + place * room_;
    attention_loops().narrow_rows(copy, x.data() + part.offset(head), part.row, part.rows, part.width);
    return {copy, DType::bf16, part.width};
  }

 private:
  std::int64_t room_;
  DType dtype_;
  Tensor copies_;
};

MatrixView by_columns(MatrixView view) {
  view.axis = Axis::column;
  return view;
}
MatrixView from_row(MatrixView view, std::int64_t row) {
  view.data = static_cast<const std::byte*>(view.data) + row * view.stride * size_of(view.dtype);
  return view;
}

/// A tile of scores: f32, and in bf16 where that is the operand.
struct Scores {
  Tensor wide, narrow;
  Scores(Backend& memory, const AttentionShape& s, DType dtype) {
    const std::int64_t stride = (s.keys + lanes - 1) / lanes * lanes, rows = std::min(queries, s.time);
    wide = memory.empty({rows, stride});
    if (dtype == DType::bf16) narrow = memory.empty({rows, stride}, dtype);
  }
  std::int64_t stride() const { return wide.cols(); }
  MatrixView operand() const {
    return {narrow ? narrow.raw() : wide.raw(), narrow ? DType::bf16 : DType::f32, stride()};
  }
};

/// The queries from `first` on, against the keys that the last of them sees.
AttentionTile tile_at(const AttentionShape& s, std::int64_t first, std::int64_t length, std::int64_t stride) {
  const std::int64_t end = std::min(first + queries, s.time);
  return {s.first_position + first,       end - first, s.seen(end - 1, length), stride, length,
          s.mask == AttentionMask::causal};
}

}  // namespace

void attention_by_tiles(Backend& memory, const call::Attention& call, DType operands) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  const Tensor& kv = s.own_keys ? call.kv : call.qkv;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    const Operands sides(memory, s, operands, 3);
    const MatrixView k = sides.take(kv, s.k(), key_head, 1), v = sides.take(kv, s.v(), key_head, 2);
    const Scores p(memory, s, operands);
    const std::int64_t length = attention_length(s, call.lengths, key_head / s.kv_heads);
    for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
      const MatrixView q = sides.take(call.qkv, s.q(), head, 0);
      float* const o = call.o.data() + s.o().offset(head);
      for (std::int64_t first = 0; first < T; first += queries) {
        const AttentionTile tile = tile_at(s, first, length, p.stride());
        gemm_block(p.wide.data(), tile.stride, from_row(q, first), k, tile.rows, tile.keys, D);
        loops.softmax(p.wide.data(), p.narrow.data<bf16>(), call.lse.data() + head * T + first, tile, scale);
        gemm_block(o + first * s.o().row, s.o().row, p.operand(), by_columns(v), tile.rows, D, tile.keys);
      }
    }
  });
}

void attention_by_tiles_backward(Backend& memory, const call::AttentionBackward& call, DType operands) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  const Tensor &kv = s.own_keys ? call.kv : call.qkv, &dkv = s.own_keys ? call.dkv : call.dqkv;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    const Operands sides(memory, s, operands, 4);
    const MatrixView k = sides.take(kv, s.k(), key_head, 1), v = sides.take(kv, s.v(), key_head, 2);
    const std::int64_t length = attention_length(s, call.lengths, key_head / s.kv_heads);
    const Scores p(memory, s, operands), ds(memory, s, operands);
    const Tensor delta = memory.empty({T});  // dP . P per query, which is dO . O
    float* const dk = dkv.data() + s.k().offset(key_head);
    float* const dv = dkv.data() + s.v().offset(key_head);
    // What the last tile of the first head does not see, no tile does: it overwrites the keys it sees.
    for (float* const sums : {dk, dv})
      for (std::int64_t row = s.seen(T - 1, length); row < s.keys; ++row)
        std::fill_n(sums + row * s.k().row, D, 0.0f);
    Write write = Write::overwrite;
    for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
      const MatrixView q = sides.take(call.qkv, s.q(), head, 0);
      const MatrixView d_o = sides.take(call.d_o, s.o(), head, 3);
      loops.row_dots(delta.data(), call.d_o.data() + s.o().offset(head), s.o().row,
                     call.o.data() + s.o().offset(head), s.o().row, T, D);
      float* const dq = call.dqkv.data() + s.q().offset(head);
      // From the last tile to the first, of which each adds to the keys it sees.
      for (std::int64_t first = (T - 1) / queries * queries; first >= 0; first -= queries) {
        const AttentionTile tile = tile_at(s, first, length, p.stride());
        const MatrixView d_o_tile = from_row(d_o, first), q_tile = from_row(q, first);
        gemm_block(p.wide.data(), tile.stride, q_tile, k, tile.rows, tile.keys, D);
        loops.softmax_again(p.wide.data(), p.narrow.data<bf16>(), call.lse.data() + head * T + first, tile,
                            scale);
        gemm_block(dv, s.v().row, by_columns(p.operand()), by_columns(d_o_tile), tile.keys, D, tile.rows,
                   write);
        gemm_block(ds.wide.data(), tile.stride, d_o_tile, v, tile.rows, tile.keys, D);
        loops.softmax_backward(ds.wide.data(), ds.narrow.data<bf16>(), p.wide.data(), delta.data() + first,
                               tile, scale);
        gemm_block(dq + first * s.q().row, s.q().row, ds.operand(), by_columns(k), tile.rows, D, tile.keys);
        gemm_block(dk, s.k().row, by_columns(ds.operand()), by_columns(q_tile), tile.keys, D, tile.rows,
                   write);
        write = Write::accumulate;
      }
    }
  });
}

}  // namespace mxtape::cpu
