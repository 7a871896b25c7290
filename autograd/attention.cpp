#include <utility>

#include "autograd/ops.h"
#include "kernels/attention/slots.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

/// x in `dtype`, itself if it has that.
Tensor as_type(Backend& backend, const Tensor& x, DType dtype) {
  if (!x || x.dtype() == dtype) return x;
  Tensor y = backend.empty(x.shape(), dtype);
  backend.copy(y, x);
  return y;
}

struct AttentionNode final : Node {
  GradIndex qkv_grad, kv_grad;
  call::Attention forward;  // its tensors, qkv and kv perhaps in bf16, shape, roundings and draws

  const char* name() const override { return "attention"; }
  std::int64_t saved_bytes() const override {
    return forward.qkv.bytes() + forward.kv.bytes() + forward.o.bytes() + forward.lse.bytes();
  }

  void backward(Tape& tape, Tensor dy) override {
    for (Tensor* const x : {&forward.qkv, &forward.kv}) *x = as_type(tape.backend(), *x, forward.o.dtype());
    const auto& [o, lse, qkv, shape, quant, draws, kv, lengths] = forward;
    Tensor dqkv = tape.backend().empty(qkv.shape(), qkv.dtype()), dkv;
    if (kv) dkv = tape.backend().empty(kv.shape(), kv.dtype());
    tape.backend().run(call::AttentionBackward{dqkv, dy, qkv, o, lse, shape, quant, draws, dkv, kv, lengths});
    tape.add(qkv_grad, std::move(dqkv));
    if (kv) tape.add(kv_grad, std::move(dkv));
  }
};

}  // namespace

Var ops::attention(Tape& tape, const Var& qkv, const AttentionShape& shape, const AttentionQuant& quant,
                   std::uint32_t tensor_id, const Var& kv, const Tensor& lengths) {
  check(shape);
  const auto [B, T, H, D] = std::array{shape.batch, shape.time, shape.heads, shape.width};
  const Shape want{B, T, shape.q_row()}, want_kv{B, shape.room, 2 * shape.kv_heads * D};
  require(qkv.value.shape() == want, "attention: {} {}, want {}", shape.own_keys ? "queries are" : "qkv is",
          qkv.value.shape(), want);
  require(shape.own_keys == bool(kv.value) &&
              (!kv.value || (kv.value.shape() == want_kv && kv.value.dtype() == qkv.value.dtype())),
          "attention: keys and values are {}, want {}",
          kv.value ? kv.value.shape().text() : "with the queries",
          shape.own_keys ? want_kv.text() : "them there");
  require(!lengths || (lengths.dtype() == DType::i32 && lengths.shape() == Shape{B}),
          "attention: lengths are {} {}, want i32 [{}]", name_of(lengths.dtype()), lengths.shape(), B);
  Backend& backend = tape.backend();
  call::Attention call{.o = backend.empty({B, T, H * D}, qkv.value.dtype()),
                       .lse = backend.empty({B, H, T}),
                       .qkv = qkv.value,
                       .shape = shape,
                       .quant = quant,
                       .draws = tape.key(Purpose::rounding, tensor_id, 1),
                       .kv = kv.value,
                       .lengths = lengths};
  if (!tape.training()) call.shape.dropout = 0;
  backend.run(call);
  if (!tape.wants({qkv.grad, kv.grad})) return {std::move(call.o)};

  require(shape.room == shape.keys, "attention: {} keys with room for {}; gradients want no more room",
          shape.keys, shape.room);
  auto node = std::make_unique<AttentionNode>();
  node->qkv_grad = qkv.grad;
  node->kv_grad = kv.grad;
  node->forward = call;
  // Rounded to bf16 twice, to nearest even, the bits are the same.
  if (tape.saved() == Saved::packed && rounds_inputs_to_bf16(quant))
    for (Tensor* const x : {&node->forward.qkv, &node->forward.kv}) *x = as_type(backend, *x, DType::bf16);
  return tape.record(std::move(call.o), {qkv.grad, kv.grad}, std::move(node));
}

}  // namespace mxtape
