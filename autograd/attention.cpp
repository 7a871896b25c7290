#include <utility>

#include "autograd/ops.h"
#include "autograd/round.h"
#include "kernels/attention/slots.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

struct AttentionNode final : Node {
  GradIndex qkv_grad, kv_grad;
  call::Attention forward;  // its tensors, qkv and kv perhaps in bf16, shape, roundings and draws

  const char* name() const override { return "attention"; }

  void backward(Tape& tape, Tensor dy) override {
    const auto& [o, lse, qkv, shape, quant, draws, kv, lengths] = forward;
    Tensor dqkv = tape.backend().empty(qkv.shape(), o.dtype()), dkv;
    if (kv) dkv = tape.backend().empty(kv.shape(), o.dtype());
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
  const bool recording = tape.wants({qkv.grad, kv.grad});
  // Rounded to bf16 twice, to nearest even, the bits are the same.
  if (recording && tape.kept.saved == Saved::packed && backend.narrows() && rounds_inputs_to_bf16(quant))
    for (Tensor* const x : {&call.qkv, &call.kv})
      if (*x) *x = value_of(backend, unrounded(*x), DType::bf16);
  backend.run(call);
  if (!recording) return {std::move(call.o)};

  require(shape.room == shape.keys, "attention: {} keys with room for {}; gradients want no more room",
          shape.keys, shape.room);
  auto node = std::make_unique<AttentionNode>();
  node->qkv_grad = qkv.grad;
  node->kv_grad = kv.grad;
  node->forward = call;
  return tape.record(std::move(call.o), {qkv.grad, kv.grad}, std::move(node));
}

}  // namespace mxtape
