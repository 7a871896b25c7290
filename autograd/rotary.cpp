#include <utility>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

struct RotaryNode final : Node {
  GradIndex x_grad, q_grad, k_grad;
  call::RotaryBackward way;  // all but the gradients; x [B, T, (H + 2 G) D] and rstd if there are norms

  const char* name() const override { return "rotary"; }

  void backward(Tape& tape, Tensor dy) override {
    Backend& backend = tape.backend();
    if (way.rstd) {
      const Tape::Target q = tape.target(q_grad), k = tape.target(k_grad);
      way.dq_gain = q.grad, way.dk_gain = k.grad, way.write = q.write;
      if (q.write != k.write) {
        // One of the two is shared with another op that came first: both add, the new one to zero.
        backend.fill(q.write == Write::overwrite ? q.grad : k.grad, 0);
        way.write = Write::accumulate;
      }
    }
    way.dx = dy.unique() ? dy : backend.empty(dy.shape(), dy.dtype());
    way.dy = std::move(dy);
    backend.run(way);
    Tensor dx = std::move(way.dx);
    way = {};
    tape.add(x_grad, std::move(dx));
  }
};

}  // namespace

Var ops::rotary(Tape& tape, Var qkv, std::int64_t heads, std::int64_t kv_heads, const RotaryTables& tables,
                const ParameterUse& q_gain, const ParameterUse& k_gain, float eps,
                std::int64_t first_position) {
  const Shape in = qkv.value.shape(), angles = tables.cos.shape();
  const std::int64_t all = heads + 2 * kv_heads;
  require(in.rank == 3 && heads > 0 && kv_heads > 0 && in[2] % (2 * all) == 0,
          "rotary: qkv is {}, want [B, T, (H + 2 G) D] with H = {}, G = {} and an even D", in, heads,
          kv_heads);
  const std::int64_t D = in[2] / all, positions = first_position + in[1];
  require(tables.sin.shape() == angles && angles.rank == 2 && first_position >= 0 && angles[0] >= positions &&
              angles[1] == D / 2,
          "rotary: cos is {} and sin {}, want [>= {}, {}]", angles, tables.sin.shape(), positions, D / 2);
  require(!q_gain.value == !k_gain.value, "rotary: one gain; want those of queries and of keys, or none");
  for (const ParameterUse* use : {&q_gain, &k_gain})
    require(!use->value || use->value.shape() == Shape{D}, "rotary: '{}' is {}, want [{}]",
            use->parameter ? use->parameter->name : "", use->value.shape(), D);

  Backend& backend = tape.backend();
  Tensor y = qkv.value.unique() && !q_gain.value ? qkv.value : backend.empty(in, qkv.value.dtype());
  const Tensor rstd = q_gain.value ? backend.empty({in[0], in[1], heads + kv_heads}) : Tensor{};
  backend.run(call::Rotary{.y = y,
                           .x = qkv.value,
                           .cos = tables.cos,
                           .sin = tables.sin,
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .first_position = first_position,
                           .rstd = rstd,
                           .q_gain = q_gain.value,
                           .k_gain = k_gain.value,
                           .eps = eps});
  const auto watched = [&](const ParameterUse& use) {
    return use.value ? tape.watch(*use.parameter) : no_grad;
  };
  const GradIndex q_grad = watched(q_gain), k_grad = watched(k_gain);
  if (!tape.wants({qkv.grad, q_grad, k_grad})) return {std::move(y)};
  auto node = std::make_unique<RotaryNode>();
  node->x_grad = qkv.grad;
  node->q_grad = q_grad;
  node->k_grad = k_grad;
  node->way = {.dx = {},
               .dy = {},
               .cos = tables.cos,
               .sin = tables.sin,
               .heads = heads,
               .kv_heads = kv_heads,
               .first_position = first_position,
               .x = rstd ? qkv.value : Tensor{},
               .rstd = rstd,
               .q_gain = q_gain.value,
               .k_gain = k_gain.value};
  qkv.value = {};
  return tape.record(std::move(y), {qkv.grad, q_grad, k_grad}, std::move(node));
}

}  // namespace mxtape
