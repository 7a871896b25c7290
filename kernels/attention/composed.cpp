// Attention by its definition, for all query heads of one key head: six products, twelve operands. Every
// operand of a head is a tensor of its own, [T, D] or [T, keys], rounded from f32 in blocks along the axis
// that its product sums over.
//
//    S [T, keys] =  Q K^T    sums over D       qk.q   qk.k
//    O [T, D]    =  P V      sums over keys    pv.p   pv.v
//   dP [T, keys] = dO V^T    sums over D       dp.do  dp.v
//   dQ [T, D]    = dS K      sums over keys    dq.ds  dq.k
//   dK [keys, D] = dS^T Q    sums over T       dk.ds  dk.q
//   dV [keys, D] =  P^T dO   sums over T       dv.p   dv.do
//
// P = softmax(S / sqrt(D)) over the keys that a query sees, after dropout; dS = P (dP - delta) / sqrt(D).
#include "kernels/attention/composed.h"

#include "kernels/attention/slots.h"

namespace mxtape {
namespace {

/// A product's operands and result, for one key head and its query heads.
struct Products {
  Backend& backend;
  const AttentionShape& s;
  const AttentionQuant& quant;
  const DrawKey& draws;
  std::int64_t key_head;

  /// x as the operand of a slot; without `head`: the key head's K or V.
  Rounded operator()(Slot slot, const Tensor& x, std::int64_t head = -1) const {
    const bool scores = slot == Slot::scores, keys = head < 0;
    const std::uint32_t place = scores ? score_place : attention_place(slot);
    const Quantizer& q = quant.*(scores ? score_slot : attention_slots[place]).field;
    const Site site{draws.tensor_id, slot};
    if (q.is_identity()) return unrounded(x, axis_of(slot), site);
    Rounded r = wanted(
        q, axis_of(slot), x.shape(), Layout::values,
        attention_draws(draws, place, s, keys ? s.kv_heads : s.heads, keys ? key_head : head, x.count()));
    r.site = site;
    r = with_room(backend, std::move(r));
    backend.run(call::Quantize{.to = {&r, 1}, .x = x});
    return r;
  }
  /// The product of both, or `sum` to which it is added.
  Tensor product(const Shape& shape, const Rounded& a, const Rounded& b, const Tensor& sum = {}) const {
    const Tensor c = sum ? sum : backend.empty(shape);
    backend.run(call::Gemm{.c = c, .a = a, .b = b, .write = sum ? Write::accumulate : Write::overwrite});
    return c;
  }
  /// S, rounded in place if a rule names it.
  Tensor scores(AttentionRows& rows, const Tensor& q, const Rounded& k, std::int64_t head) const {
    const Tensor S = product({s.time, s.keys}, (*this)(Slot::qk_q, q, head), k);
    if (quant.qk_s.is_identity()) return S;
    rows.hide(S, head);
    backend.run(call::Recode{.to = unrounded(S), .from = (*this)(Slot::scores, S, head)});
    return S;
  }
  void drop(const Tensor& p, std::int64_t head) const {
    if (s.dropout == 0) return;
    backend.run(call::Dropout{p, p, s.dropout, attention_dropout_draws(draws, s, head)});
  }
};

}  // namespace

void attention_composed(Backend& backend, AttentionRows& rows, const call::Attention& call,
                        std::int64_t key_head) {
  const AttentionShape& s = call.shape;
  const Products of{backend, s, call.quant, call.draws, key_head};
  const Tensor& kv = s.own_keys ? call.kv : call.qkv;
  const Rounded qk_k = of(Slot::qk_k, rows.take(kv, s.k(), key_head)),
                pv_v = of(Slot::pv_v, rows.take(kv, s.v(), key_head));
  for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
    const Tensor P = of.scores(rows, rows.take(call.qkv, s.q(), head), qk_k, head);
    rows.softmax(P, head);
    of.drop(P, head);
    rows.put(call.o, of.product({s.time, s.width}, of(Slot::pv_p, P, head), pv_v), s.o(), head);
  }
}

void attention_composed_backward(Backend& backend, AttentionRows& rows, const call::AttentionBackward& call,
                                 std::int64_t key_head) {
  const AttentionShape& s = call.shape;
  const Products of{backend, s, call.quant, call.draws, key_head};
  const Tensor &kv = s.own_keys ? call.kv : call.qkv, &dkv = s.own_keys ? call.dkv : call.dqkv;
  const Tensor K = rows.take(kv, s.k(), key_head), V = rows.take(kv, s.v(), key_head);
  const Rounded qk_k = of(Slot::qk_k, K), dq_k = of(Slot::dq_k, K), dp_v = of(Slot::dp_v, V);
  Tensor dK, dV;  // sums over the query heads, in their order
  for (std::int64_t head = key_head * s.group(); head < (key_head + 1) * s.group(); ++head) {
    const Tensor Q = rows.take(call.qkv, s.q(), head), dO = rows.take(call.d_o, s.o(), head);
    const Tensor P = of.scores(rows, Q, qk_k, head);  // the same draws as in the forward pass
    const Tensor dS = of.product({s.time, s.keys}, of(Slot::dp_do, dO, head), dp_v);
    of.drop(dS, head);
    rows.softmax_backward(P, dS, head);
    rows.put(call.dqkv, of.product({s.time, s.width}, of(Slot::dq_ds, dS, head), dq_k), s.q(), head);
    dK = of.product({s.keys, s.width}, of(Slot::dk_ds, dS, head), of(Slot::dk_q, Q, head), dK);
    of.drop(P, head);
    dV = of.product({s.keys, s.width}, of(Slot::dv_p, P, head), of(Slot::dv_do, dO, head), dV);
  }
  rows.put(dkv, dK, s.k(), key_head);
  rows.put(dkv, dV, s.v(), key_head);
}

}  // namespace mxtape
