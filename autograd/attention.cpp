#include <utility>

#include "autograd/ops.h"

namespace mxtape {
namespace {

struct AttentionNode final : Node {
  GradIndex qkv_grad;
  Tensor qkv;  // [B, T, 3 H D]
  Tensor o;    // [B, T, H D]
  Tensor lse;  // [B, H, T] log of the softmax's row sums
  AttentionShape shape;
  AttentionQuant quant;
  DrawKey draws;

  const char* name() const override { return "causal_attention"; }
  std::int64_t saved_bytes() const override { return qkv.bytes() + o.bytes() + lse.bytes(); }

  void backward(Tape& tape, Tensor dy) override {
    Tensor dqkv = tape.backend().empty(qkv.shape(), qkv.dtype());
    tape.backend().run(call::AttentionBackward{.dqkv = dqkv,
                                               .d_o = dy,
                                               .qkv = qkv,
                                               .o = o,
                                               .lse = lse,
                                               .shape = shape,
                                               .quant = quant,
                                               .draws = draws});
    tape.add(qkv_grad, std::move(dqkv));
  }
};

}  // namespace

Var ops::causal_attention(Tape& tape, const Var& qkv, std::int64_t heads, const AttentionQuant& quant,
                          std::uint32_t tensor_id) {
  const Shape s = qkv.value.shape();
  require(s.rank == 3 && heads > 0 && s[2] % (3 * heads) == 0,
          "causal_attention: qkv is {}, want [B, T, 3 H D] with H = {}", s.text(), heads);
  const AttentionShape shape{s[0], s[1], heads, s[2] / (3 * heads)};
  const DrawKey draws = tape.key(Purpose::rounding, tensor_id, 1);
  Backend& backend = tape.backend();
  Tensor o = backend.empty({s[0], s[1], s[2] / 3}, qkv.value.dtype()),
         lse = backend.empty({s[0], heads, s[1]});
  backend.run(call::Attention{o, lse, qkv.value, shape, quant, draws});
  if (!tape.wants({qkv.grad})) return {std::move(o)};

  auto node = std::make_unique<AttentionNode>();
  node->qkv_grad = qkv.grad;
  node->qkv = qkv.value;
  node->o = o;
  node->lse = std::move(lse);
  node->shape = shape;
  node->quant = quant;
  node->draws = draws;
  return tape.record(std::move(o), {qkv.grad}, std::move(node));
}

}  // namespace mxtape
