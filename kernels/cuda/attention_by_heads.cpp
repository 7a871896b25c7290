#include <cmath>

#include "kernels/cuda/attention_paths.h"

namespace mxtape::cuda {
namespace {

/// The operands of one head of `call`: index = b H + h.
template <class Call>
class Head {
 public:
  Head(const Call& call, const DrawKey& draws, std::int64_t index)
      : call_(call), draws_(draws), index_(index) {}

  Tensor take(const Tensor& x, std::int64_t part, std::int64_t parts) const {
    return take_head(call_.backend, call_.stream, x, call_.shape, index_, part, parts);
  }
  void put(const Tensor& y, const Tensor& x, std::int64_t part, std::int64_t parts) const {
    put_head(call_.stream, y, x, call_.shape, index_, part, parts);
  }

  /// x [T, D] or [T, T] rounded for one GEMM, blocks along `axis`; `slot` is the place in AttentionQuant.
  Operand round(const Tensor& x, const Quantizer& q, Axis axis, std::uint32_t slot) const {
    if (q.is_identity()) return {x};
    DrawKey key = draws_;
    key.tensor_id += slot;
    const std::int64_t first_sequence = std::int64_t(draws_.first_element) / call_.shape.time;
    key.first_element = std::uint64_t((first_sequence * call_.shape.heads + index_) * x.count());
    QuantizedCopy copy{q, axis};
    copy.values = call_.backend.empty(x.shape(), q.operand_dtype());
    if (q.has_multiplier()) copy.multiplier = call_.backend.empty({1});
    call_.backend.quantize({&copy, 1}, x, key);
    return {copy.values, Trans::no, copy.multiplier};
  }

  /// op(a) [M, K] op(b) [K, N] in f32.
  Tensor product(Operand a, Trans a_trans, Operand b, Trans b_trans, std::int64_t M, std::int64_t N) const {
    const Tensor c = call_.backend.empty({M, N});
    a.trans = a_trans;
    b.trans = b_trans;
    call_.backend.gemm(c, a, b);
    return c;
  }

 private:
  const Call& call_;
  const DrawKey& draws_;
  std::int64_t index_;
};

}  // namespace

void attention_by_heads(const AttentionForward& call, const AttentionQuant& quant, const DrawKey& draws) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  for (std::int64_t index = 0; index < s.batch * s.heads; ++index) {
    const Head head(call, draws, index);
    const Operand q = head.round(head.take(call.qkv, 0, 3), quant.qk_q, Axis::cols, 0);
    const Operand k = head.round(head.take(call.qkv, 1, 3), quant.qk_k, Axis::cols, 1);
    const Tensor p = head.product(q, Trans::no, k, Trans::yes, T, T);
    causal_softmax(call.stream, p, call.lse.data() + index * T, scale);
    const Operand pv_p = head.round(p, quant.pv_p, Axis::cols, 2);
    const Operand pv_v = head.round(head.take(call.qkv, 2, 3), quant.pv_v, Axis::rows, 3);
    head.put(call.o, head.product(pv_p, Trans::no, pv_v, Trans::no, T, D), 0, 1);
  }
}

void attention_by_heads_backward(const AttentionBackward& call, const AttentionQuant& quant,
                                 const DrawKey& draws) {
  const AttentionShape& s = call.shape;
  const std::int64_t T = s.time, D = s.width;
  const float scale = 1 / std::sqrt(float(D));
  const Tensor delta = attention_delta(call);
  for (std::int64_t index = 0; index < s.batch * s.heads; ++index) {
    const Head head(call, draws, index);
    const Tensor q = head.take(call.qkv, 0, 3), k = head.take(call.qkv, 1, 3), v = head.take(call.qkv, 2, 3);
    const Tensor d_o = head.take(call.d_o, 0, 1);

    // The forward pass drew the same numbers for these two operands.
    const Tensor p = head.product(head.round(q, quant.qk_q, Axis::cols, 0), Trans::no,
                                  head.round(k, quant.qk_k, Axis::cols, 1), Trans::yes, T, T);
    const Tensor ds = head.product(head.round(d_o, quant.dp_do, Axis::cols, 6), Trans::no,
                                   head.round(v, quant.dp_v, Axis::cols, 7), Trans::yes, T, T);
    causal_softmax_backward(call.stream, p, ds, call.lse.data() + index * T, delta.data() + index * T, scale);
    const Operand dv_p = head.round(p, quant.dv_p, Axis::rows, 4);
    const Operand dv_do = head.round(d_o, quant.dv_do, Axis::rows, 5);
    head.put(call.dqkv, head.product(dv_p, Trans::yes, dv_do, Trans::no, T, D), 2, 3);
    const Operand dq_ds = head.round(ds, quant.dq_ds, Axis::cols, 8);
    const Operand dq_k = head.round(k, quant.dq_k, Axis::rows, 9);
    head.put(call.dqkv, head.product(dq_ds, Trans::no, dq_k, Trans::no, T, D), 0, 3);
    const Operand dk_ds = head.round(ds, quant.dk_ds, Axis::rows, 10);
    const Operand dk_q = head.round(q, quant.dk_q, Axis::rows, 11);
    head.put(call.dqkv, head.product(dk_ds, Trans::yes, dk_q, Trans::no, T, D), 1, 3);
  }
}

}  // namespace mxtape::cuda
