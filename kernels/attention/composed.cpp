#include "kernels/attention/composed.h"

#include "kernels/attention/slots.h"
#include "kernels/gemm/room.h"

namespace mxtape {
namespace {

using Slots = AttentionQuant;

/// The GEMMs of the query heads of one key head, and their operands.
template <class Call>
class Products {
 public:
  Products(Backend& backend, AttentionRows& rows, const Call& call, std::int64_t key_head)
      : backend_(backend), rows_(rows), call_(call), s_(call.shape), key_head_(key_head) {}

  /// x [T, D] or [T, keys] of a query head as the operand of a slot.
  Operand round(const Tensor& x, AttentionField field, std::int64_t head, Trans trans = Trans::no) const {
    return round_for(x, field, trans, s_.heads, head);
  }
  /// K or V.
  Operand round_keys(const Tensor& x, AttentionField field, Trans trans = Trans::no) const {
    return round_for(x, field, trans, s_.kv_heads, key_head_);
  }

  /// [T, keys], sums over D.
  Tensor scores(const Operand& a, const Operand& b) const { return product(a, b, s_.time, s_.keys); }
  /// S = Q K^T, rounded if it has a slot.
  Tensor scores_of(const Tensor& q, const Operand& k, std::int64_t head) const {
    const Tensor s = scores(round(q, &Slots::qk_q, head), k);
    if (call_.quant.qk_s.is_identity()) return s;
    rows_.hide(s, head);
    QuantizedCopy copy{call_.quant.qk_s, Axis::row};
    make_room(backend_, copy, s.shape());
    backend_.run(call::Quantize{
        {&copy, 1}, s, attention_draws(call_.draws, score_place, s_, s_.heads, head, s.count())});
    backend_.run(call::Dequantize{s, copy});
    return s;
  }
  void drop(const Tensor& p, std::int64_t head) const {
    if (s_.dropout == 0) return;
    backend_.run(call::Dropout{p, p, s_.dropout, attention_dropout_draws(call_.draws, s_, head)});
  }
  /// [T, D], sums over keys.
  Tensor values(const Operand& a, const Operand& b) const { return product(a, b, s_.time, s_.width); }
  /// sum [keys, D] = or += a sum over queries.
  void add_to(Tensor& sum, const Operand& a, const Operand& b) const {
    const Write write = sum ? Write::accumulate : Write::overwrite;
    if (!sum) sum = backend_.empty({s_.keys, s_.width});
    backend_.run(call::Gemm{.c = sum, .a = a, .b = b, .write = write});
  }

 private:
  Operand round_for(const Tensor& x, AttentionField field, Trans trans, std::int64_t heads,
                    std::int64_t head) const {
    const Quantizer& q = call_.quant.*field;
    if (q.is_identity()) return {x, trans};
    const std::uint32_t place = attention_place(field);
    QuantizedCopy copy{q, attention_slots[place].axis};
    make_room(backend_, copy, x.shape());
    backend_.run(
        call::Quantize{{&copy, 1}, x, attention_draws(call_.draws, place, s_, heads, head, x.count())});
    return {copy.values, trans, copy.multiplier};
  }
  Tensor product(const Operand& a, const Operand& b, std::int64_t rows, std::int64_t cols) const {
    const Tensor c = backend_.empty({rows, cols});
    backend_.run(call::Gemm{.c = c, .a = a, .b = b});
    return c;
  }

  Backend& backend_;
  AttentionRows& rows_;
  const Call& call_;
  const AttentionShape& s_;
  std::int64_t key_head_;
};

}  // namespace

void attention_composed(Backend& backend, AttentionRows& rows, const call::Attention& call,
                        std::int64_t key_head) {
  const AttentionShape& s = call.shape;
  const Products of(backend, rows, call, key_head);
  const Tensor& kv = s.own_keys ? call.kv : call.qkv;
  const Operand k = of.round_keys(rows.take(kv, s.k(), key_head), &Slots::qk_k, Trans::yes);
  const Operand v = of.round_keys(rows.take(kv, s.v(), key_head), &Slots::pv_v);
  for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
    const Tensor p = of.scores_of(rows.take(call.qkv, s.q(), head), k, head);
    rows.softmax(p, head);
    of.drop(p, head);
    rows.put(call.o, of.values(of.round(p, &Slots::pv_p, head), v), s.o(), head);
  }
}

void attention_composed_backward(Backend& backend, AttentionRows& rows, const call::AttentionBackward& call,
                                 std::int64_t key_head) {
  const AttentionShape& s = call.shape;
  const Products of(backend, rows, call, key_head);
  const Tensor &kv = s.own_keys ? call.kv : call.qkv, &dkv = s.own_keys ? call.dkv : call.dqkv;
  const Tensor k = rows.take(kv, s.k(), key_head), v = rows.take(kv, s.v(), key_head);
  // The forward pass drew the same numbers for K here and Q below, and for what is dropped.
  const Operand qk_k = of.round_keys(k, &Slots::qk_k, Trans::yes), dq_k = of.round_keys(k, &Slots::dq_k),
                dp_v = of.round_keys(v, &Slots::dp_v, Trans::yes);
  Tensor dk, dv;
  for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
    const Tensor q = rows.take(call.qkv, s.q(), head), d_o = rows.take(call.d_o, s.o(), head);
    const Tensor p = of.scores_of(q, qk_k, head), ds = of.scores(of.round(d_o, &Slots::dp_do, head), dp_v);
    of.drop(ds, head);
    rows.softmax_backward(p, ds, head);
    rows.put(call.dqkv, of.values(of.round(ds, &Slots::dq_ds, head), dq_k), s.q(), head);
    of.add_to(dk, of.round(ds, &Slots::dk_ds, head, Trans::yes), of.round(q, &Slots::dk_q, head));
    of.drop(p, head);
    of.add_to(dv, of.round(p, &Slots::dv_p, head, Trans::yes), of.round(d_o, &Slots::dv_do, head));
  }
  rows.put(dkv, dk, s.k(), key_head);
  rows.put(dkv, dv, s.v(), key_head);
}

}  // namespace mxtape
