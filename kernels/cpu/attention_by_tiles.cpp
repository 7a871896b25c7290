#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/attention_loops.h"

namespace mxtape::cpu {
namespace {

// Queries of one tile. Smaller ones waste less on masked keys: T (T + queries) / 2 of T^2 products are
// computed. Below 64 the GEMMs of oneDNN lose more than that.
constexpr std::int64_t queries = 64;
constexpr std::int64_t lanes = 16;  // rows of scratch are whole vectors

/// Head slices [T, D] as sides of GEMMs: in place in f32, copied in bf16.
class Operands {
 public:
  Operands(Backend& memory, const AttentionShape& s, DType dtype, std::int64_t count)
      : shape_(s), dtype_(dtype) {
    if (dtype == DType::bf16) copies_ = memory.empty({count, s.time, s.width}, DType::bf16);
  }
  /// `place` < count is where the copy goes.
  MatrixView take(const float* x, std::int64_t stride, std::int64_t place) const {
    if (dtype_ == DType::f32) return {x, DType::f32, stride};
    bf16* const copy = copies_.data<bf16>() + place * shape_.time * shape_.width;
    attention_loops().narrow_rows(copy, x, stride, shape_.time, shape_.width);
    return {copy, DType::bf16, shape_.width};
  }

 private:
  const AttentionShape& shape_;
  DType dtype_;
  Tensor copies_;
};

MatrixView transposed(MatrixView view) {
  view.trans = Trans::yes;
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
    const std::int64_t stride = (s.time + lanes - 1) / lanes * lanes, rows = std::min(queries, s.time);
    wide = memory.empty({rows, stride});
    if (dtype == DType::bf16) narrow = memory.empty({rows, stride}, dtype);
  }
  std::int64_t stride() const { return wide.cols(); }
  MatrixView operand() const {
    return {narrow ? narrow.raw() : wide.raw(), narrow ? DType::bf16 : DType::f32, stride()};
  }
};

AttentionTile tile_at(std::int64_t first, std::int64_t time, std::int64_t stride) {
  const std::int64_t end = std::min(first + queries, time);
  return {first, end - first, end, stride};
}

}  // namespace

void attention_by_tiles(Backend& memory, const call::Attention& call, DType operands) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  parallel_for(s.batch * s.heads, 1, [&](std::int64_t index, std::int64_t) {
    const auto in = [&](std::int64_t part) { return s.offset(index, part, 3); };
    const std::int64_t out = s.offset(index, 0, 1), in_stride = s.stride(3), out_stride = s.stride(1);
    const Operands sides(memory, s, operands, 3);
    const float* const qkv = call.qkv.data();
    const MatrixView q = sides.take(qkv + in(0), in_stride, 0);
    const MatrixView k = sides.take(qkv + in(1), in_stride, 1);
    const MatrixView v = sides.take(qkv + in(2), in_stride, 2);
    const Scores p(memory, s, operands);
    for (std::int64_t first = 0; first < T; first += queries) {
      const AttentionTile tile = tile_at(first, T, p.stride());
      gemm_block(p.wide.data(), tile.stride, from_row(q, first), transposed(k), tile.rows, tile.keys, D);
      loops.softmax(p.wide.data(), p.narrow.data<bf16>(), call.lse.data() + index * T + first, tile, scale);
      gemm_block(call.o.data() + out + first * out_stride, out_stride, p.operand(), v, tile.rows, D,
                 tile.keys);
    }
  });
}

void attention_by_tiles_backward(Backend& memory, const call::AttentionBackward& call, DType operands) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  parallel_for(s.batch * s.heads, 1, [&](std::int64_t index, std::int64_t) {
    const auto in = [&](std::int64_t part) { return s.offset(index, part, 3); };
    const std::int64_t out = s.offset(index, 0, 1), in_stride = s.stride(3), out_stride = s.stride(1);
    const Operands sides(memory, s, operands, 4);
    const float* const qkv = call.qkv.data();
    const MatrixView q = sides.take(qkv + in(0), in_stride, 0);
    const MatrixView k = sides.take(qkv + in(1), in_stride, 1);
    const MatrixView v = sides.take(qkv + in(2), in_stride, 2);
    const float* const d_o_rows = call.d_o.data() + out;
    const MatrixView d_o = sides.take(d_o_rows, out_stride, 3);
    const Tensor delta = memory.empty({T});  // dP . P per query, which is dO . O
    loops.row_dots(delta.data(), d_o_rows, out_stride, call.o.data() + out, out_stride, T, D);
    const Scores p(memory, s, operands), ds(memory, s, operands);
    float* const dq = call.dqkv.data() + in(0);
    float* const dk = call.dqkv.data() + in(1);
    float* const dv = call.dqkv.data() + in(2);
    // From the last tile to the first: the last sees all keys and overwrites, the others add to the keys they
    // see.
    for (std::int64_t first = (T - 1) / queries * queries; first >= 0; first -= queries) {
      const AttentionTile tile = tile_at(first, T, p.stride());
      const Write write = tile.keys == T ? Write::overwrite : Write::accumulate;
      const MatrixView d_o_tile = from_row(d_o, first), q_tile = from_row(q, first);
      gemm_block(p.wide.data(), tile.stride, q_tile, transposed(k), tile.rows, tile.keys, D);
      loops.softmax_again(p.wide.data(), p.narrow.data<bf16>(), call.lse.data() + index * T + first, tile,
                          scale);
      gemm_block(dv, in_stride, transposed(p.operand()), d_o_tile, tile.keys, D, tile.rows, write);
      gemm_block(ds.wide.data(), tile.stride, d_o_tile, transposed(v), tile.rows, tile.keys, D);
      loops.softmax_backward(ds.wide.data(), ds.narrow.data<bf16>(), p.wide.data(), delta.data() + first,
                             tile, scale);
      gemm_block(dq + first * in_stride, in_stride, ds.operand(), k, tile.rows, D, tile.keys);
      gemm_block(dk, in_stride, transposed(ds.operand()), q_tile, tile.keys, D, tile.rows, write);
    }
  });
}

}  // namespace mxtape::cpu
