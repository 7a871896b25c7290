#include "kernels/attention/composed.h"

#include "kernels/attention/slots.h"
#include "kernels/gemm/room.h"

namespace mxtape {
namespace {

/// The GEMMs of one head and their operands.
class Products {
 public:
  Products(Backend& backend, const AttentionShape& shape, const AttentionQuant& quant, const DrawKey& draws,
           std::int64_t head)
      : backend_(backend), shape_(shape), quant_(quant), draws_(draws), head_(head) {}

  /// x [T, D] or [T, T] as the operand of a slot.
  Operand round(const Tensor& x, AttentionField field, Trans trans = Trans::no) const {
    const Quantizer& q = quant_.*field;
    if (q.is_identity()) return {x, trans};
    const std::uint32_t place = attention_place(field);
    QuantizedCopy copy{q, attention_slots[place].axis};
    make_room(backend_, copy, x.shape());
    backend_.run(call::Quantize{{&copy, 1}, x, attention_draws(draws_, place, shape_, head_, x.count())});
    return {copy.values, trans, copy.multiplier};
  }

  /// [T, T], sums over D.
  Tensor scores(const Operand& a, const Operand& b) const { return product(a, b, shape_.time); }
  /// [T, D], sums over queries or keys.
  Tensor values(const Operand& a, const Operand& b) const { return product(a, b, shape_.width); }

 private:
  Tensor product(const Operand& a, const Operand& b, std::int64_t cols) const {
    const Tensor c = backend_.empty({shape_.time, cols});
    backend_.run(call::Gemm{.c = c, .a = a, .b = b});
    return c;
  }

  Backend& backend_;
  const AttentionShape& shape_;
  const AttentionQuant& quant_;
  const DrawKey& draws_;
  std::int64_t head_;
};

}  // namespace

using Slots = AttentionQuant;

void attention_composed(Backend& backend, AttentionHead& head, const call::Attention& call,
                        std::int64_t index) {
  const Products of(backend, call.shape, call.quant, call.draws, index);
  const Tensor p = of.scores(of.round(head.take(call.qkv, 0, 3), &Slots::qk_q),
                             of.round(head.take(call.qkv, 1, 3), &Slots::qk_k, Trans::yes));
  head.softmax(p);
  const Operand pv_p = of.round(p, &Slots::pv_p), pv_v = of.round(head.take(call.qkv, 2, 3), &Slots::pv_v);
  head.put(call.o, of.values(pv_p, pv_v), 0, 1);
}

void attention_composed_backward(Backend& backend, AttentionHead& head, const call::AttentionBackward& call,
                                 std::int64_t index) {
  const Products of(backend, call.shape, call.quant, call.draws, index);
  const Tensor q = head.take(call.qkv, 0, 3), k = head.take(call.qkv, 1, 3), v = head.take(call.qkv, 2, 3);
  const Tensor d_o = head.take(call.d_o, 0, 1);

  // The forward pass drew the same numbers for these two operands.
  const Tensor p = of.scores(of.round(q, &Slots::qk_q), of.round(k, &Slots::qk_k, Trans::yes));
  const Tensor ds = of.scores(of.round(d_o, &Slots::dp_do), of.round(v, &Slots::dp_v, Trans::yes));
  head.softmax_backward(p, ds);
  head.put(call.dqkv, of.values(of.round(ds, &Slots::dq_ds), of.round(k, &Slots::dq_k)), 0, 3);
  head.put(call.dqkv, of.values(of.round(ds, &Slots::dk_ds, Trans::yes), of.round(q, &Slots::dk_q)), 1, 3);
  head.put(call.dqkv, of.values(of.round(p, &Slots::dv_p, Trans::yes), of.round(d_o, &Slots::dv_do)), 2, 3);
}

}  // namespace mxtape
