#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/attention_loops.h"
#include "kernels/cpu/attention_paths.h"

namespace mxtape::cpu {
namespace {

/// The operands of one head: index = b H + h.
class Head {
 public:
  Head(Backend& memory, const AttentionShape& s, const DrawKey& draws, std::int64_t index)
      : memory_(memory), s_(s), draws_(draws), index_(index) {}

  /// Part `part` of x [B, T, parts H D] as [T, D].
  Tensor take(const Tensor& x, std::int64_t part, std::int64_t parts) const {
    const Tensor y = memory_.empty({s_.time, s_.width});
    for (std::int64_t t = 0; t < s_.time; ++t)
      std::copy_n(x.data() + place(t, part, parts), s_.width, y.data() + t * s_.width);
    return y;
  }
  void put(const Tensor& y, const Tensor& x, std::int64_t part, std::int64_t parts) const {
    for (std::int64_t t = 0; t < s_.time; ++t)
      std::copy_n(x.data() + t * s_.width, s_.width, y.data() + place(t, part, parts));
  }

  /// x [T, D] or [T, T] rounded for one GEMM, blocks along `axis`. Random draws: field number `slot` of
  /// AttentionQuant has tensor id draws.tensor_id + slot; elements are numbered in [B, H, T, D], P and dS in
  /// [B, H, T, T], of the global batch.
  Operand round(const Tensor& x, const Quantizer& q, Axis axis, std::uint32_t slot) const {
    if (q.is_identity()) return {x};
    DrawKey key = draws_;
    key.tensor_id += slot;
    const std::int64_t first_sequence = std::int64_t(draws_.first_element) / s_.time;
    key.first_element = std::uint64_t((first_sequence * s_.heads + index_) * x.count());
    QuantizedCopy copy{q, axis};
    copy.values = memory_.empty(x.shape(), q.operand_dtype());
    if (q.has_multiplier()) copy.multiplier = memory_.empty({1});
    memory_.quantize({&copy, 1}, x, key);
    return {copy.values, Trans::no, copy.multiplier};
  }

  Tensor product(Operand a, Trans a_trans, Operand b, Trans b_trans, std::int64_t M, std::int64_t N) const {
    const Tensor c = memory_.empty({M, N});
    a.trans = a_trans;
    b.trans = b_trans;
    memory_.gemm(c, a, b);
    return c;
  }

 private:
  std::int64_t place(std::int64_t t, std::int64_t part, std::int64_t parts) const {
    const std::int64_t b = index_ / s_.heads, h = index_ % s_.heads;
    return (((b * s_.time + t) * parts + part) * s_.heads + h) * s_.width;
  }

  Backend& memory_;
  const AttentionShape& s_;
  const DrawKey& draws_;
  std::int64_t index_;
};

AttentionTile whole(std::int64_t T) { return {0, T, T, T}; }

}  // namespace

void attention_by_heads(const AttentionForward& call, const AttentionQuant& quant, const DrawKey& draws) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  parallel_for(s.batch * s.heads, 1, [&](std::int64_t index, std::int64_t) {
    const Head head(call.memory, s, draws, index);
    const Operand q = head.round(head.take(call.qkv, 0, 3), quant.qk_q, Axis::cols, 0);
    const Operand k = head.round(head.take(call.qkv, 1, 3), quant.qk_k, Axis::cols, 1);
    const Tensor p = head.product(q, Trans::no, k, Trans::yes, T, T);
    attention_loops().softmax(p.data(), nullptr, call.lse.data() + index * T, whole(T), scale);
    const Operand pv_p = head.round(p, quant.pv_p, Axis::cols, 2);
    const Operand pv_v = head.round(head.take(call.qkv, 2, 3), quant.pv_v, Axis::rows, 3);
    head.put(call.o, head.product(pv_p, Trans::no, pv_v, Trans::no, T, D), 0, 1);
  });
}

void attention_by_heads_backward(const AttentionBackward& call, const AttentionQuant& quant,
                                 const DrawKey& draws) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const auto& loops = attention_loops();
  parallel_for(s.batch * s.heads, 1, [&](std::int64_t index, std::int64_t) {
    const Head head(call.memory, s, draws, index);
    const Tensor q = head.take(call.qkv, 0, 3), k = head.take(call.qkv, 1, 3), v = head.take(call.qkv, 2, 3);
    const Tensor o = head.take(call.o, 0, 1), d_o = head.take(call.d_o, 0, 1);

    // The forward pass drew the same numbers for these two operands.
    const Tensor p = head.product(head.round(q, quant.qk_q, Axis::cols, 0), Trans::no,
                                  head.round(k, quant.qk_k, Axis::cols, 1), Trans::yes, T, T);
    loops.softmax_again(p.data(), nullptr, call.lse.data() + index * T, whole(T), scale);
    const Operand dv_p = head.round(p, quant.dv_p, Axis::rows, 4);
    const Operand dv_do = head.round(d_o, quant.dv_do, Axis::rows, 5);
    head.put(call.dqkv, head.product(dv_p, Trans::yes, dv_do, Trans::no, T, D), 2, 3);

    const Tensor delta = call.memory.empty({T});
    loops.row_dots(delta.data(), d_o.data(), D, o.data(), D, T, D);
    const Tensor ds = head.product(head.round(d_o, quant.dp_do, Axis::cols, 6), Trans::no,
                                   head.round(v, quant.dp_v, Axis::cols, 7), Trans::yes, T, T);
    loops.softmax_backward(ds.data(), nullptr, p.data(), delta.data(), whole(T), scale);
    const Operand dq_ds = head.round(ds, quant.dq_ds, Axis::cols, 8);
    const Operand dq_k = head.round(k, quant.dq_k, Axis::rows, 9);
    head.put(call.dqkv, head.product(dq_ds, Trans::no, dq_k, Trans::no, T, D), 0, 3);
    const Operand dk_ds = head.round(ds, quant.dk_ds, Axis::rows, 10);
    const Operand dk_q = head.round(q, quant.dk_q, Axis::rows, 11);
    head.put(call.dqkv, head.product(dk_ds, Trans::yes, dk_q, Trans::no, T, D), 1, 3);
  });
}

}  // namespace mxtape::cpu
