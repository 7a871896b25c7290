// A linear layer: three GEMMs, six operands. Each operand is rounded on its own, in blocks along the axis
// that its GEMM sums over. So x, w and dy are rounded twice, unless one copy serves both, and not transposed.
//
//   fprop    y [M, N]  =  x [M, K]    w^T [K, N]     sums over K, the in-features     fprop.x   fprop.w
//   dgrad   dx [M, K]  = dy [M, N]    w   [N, K]     sums over N, the out-features    dgrad.dy  dgrad.w
//   wgrad   dw [N, K]  = dy^T [N, M]  x   [M, K]     sums over M, the rows            wgrad.dy  wgrad.x
#include <utility>

#include "autograd/linear_operands.h"

namespace mxtape {
namespace {

struct LinearNode final : Node {
  LinearUse use;
  GradIndex x_grad, w_grad, bias_grad;
  Shape x_shape;
  Rounded wgrad_x;  // empty if backward recomputes x
  Rounded dgrad_w;  // shared with the parameter, costs nothing
  Tensor x, w;      // what a straight-through derivative reads; w costs nothing

  const char* name() const override { return "linear"; }

  void backward(Tape& tape, Tensor dy) override {
    Backend& backend = tape.backend();
    const DType dtype = dy.dtype();
    const bool wants_dx = x_grad != no_grad;

    // dy for both GEMMs, and the bias' gradient, in one pass.
    Rounded dgrad_dy = use.operand(Slot::dgrad_dy), wgrad_dy = use.operand(Slot::wgrad_dy);
    const Tape::Target bias = bias_grad == no_grad ? Tape::Target{} : tape.target(bias_grad);
    round(backend, std::exchange(dy, {}), wants_dx ? &dgrad_dy : nullptr, &wgrad_dy, bias.grad, bias.write);

    {  // dw = dy^T x
      const Rounded rounded_x =
          wgrad_x ? in_layout(backend, std::exchange(wgrad_x, {}), use.operand(Slot::wgrad_x).layout)
                  : x_again(tape);
      const Tape::Target dw = tape.target(w_grad);
      multiply_through(backend,
                       {.c = dw.grad, .a = std::exchange(wgrad_dy, {}), .b = rounded_x, .write = dw.write},
                       use.through(Slot::fprop_w, w));
    }  // the copies of x and dy are freed before dx is allocated
    if (!wants_dx) return;

    // dx = dy w
    Tensor dx = backend.empty(x_shape, dtype);
    multiply_through(backend, {.c = dx, .a = dgrad_dy, .b = dgrad_w}, use.through(Slot::fprop_x, x));
    tape.add(x_grad, std::move(dx));
  }

  /// With compute.recompute. x's op ran before, so it is still on the tape. `later` may need `now`.
  Rounded x_again(Tape& tape) {
    const Tensor value = tape.producer(x_grad)->recompute(tape);
    if (use.reads_value(Slot::fprop_x)) x = value;
    Rounded now = use.operand(Slot::fprop_x), later = use.operand(Slot::wgrad_x);
    round(tape.backend(), value, later.by.again || later.shared ? &now : nullptr, &later);
    return later;
  }
};

}  // namespace

Var ops::linear(Tape& tape, Var x, Parameter& w, Parameter* bias, const LinearQuant& quant,
                std::uint32_t tensor_id) {
  check_linear(x.value.shape(), w, bias);
  const Shape x_shape = x.value.shape();
  const DType dtype = x.value.dtype();
  Backend& backend = tape.backend();
  const GradIndex w_grad = tape.watch(w), bias_grad = bias ? tape.watch(*bias) : no_grad;
  const bool recording = tape.wants({x.grad, w_grad, bias_grad});
  const LinearUse use = use_of(w, quant, tensor_id, tape.pass(), backend.gemm_kernels());

  // w is rounded once a step. x is rounded for fprop and, unless backward recomputes it, for wgrad.
  require(!w.fixed || !recording, "linear: '{}' is packed, it can only be evaluated", w.name);
  make_weight_copies(backend, w, use, recording && x.grad != no_grad);
  const Node* const producer = tape.producer(x.grad);
  const bool keeps_x = recording && !(producer && producer->recomputes());
  Rounded fprop_x = use.operand(Slot::fprop_x), wgrad_x = use.kept(Slot::wgrad_x, tape);
  const Tensor x_kept = keeps_x && x.grad != no_grad && use.reads_value(Slot::fprop_x) ? x.value : Tensor{};
  round(backend, std::exchange(x.value, {}), &fprop_x, keeps_x ? &wgrad_x : nullptr);

  // y = x w^T + bias
  Shape out = x_shape;
  out.dims[std::size_t(out.rank - 1)] = w.shape()[0];
  Tensor y = backend.empty(out, dtype);
  backend.run(call::Gemm{.c = y,
                         .a = std::exchange(fprop_x, {}),
                         .b = in_layout(backend, w.copies.fprop, use.operand(Slot::fprop_w).layout),
                         .bias = bias ? bias->value : Tensor{}});

  Var result{std::move(y)};
  if (recording) {
    auto node = std::make_unique<LinearNode>();
    node->use = use;
    node->x_grad = x.grad, node->w_grad = w_grad, node->bias_grad = bias_grad;
    node->x_shape = x_shape;
    node->wgrad_x = std::move(wgrad_x);
    node->dgrad_w = w.copies.dgrad;
    if (!tape.kept.weights) w.forget_copies();
    node->x = x_kept, node->w = w.value;
    result = tape.record(std::move(result.value), {x.grad, w_grad, bias_grad}, std::move(node));
  }
  return quant.out.is_identity() ? result : quantize(tape, result, quant.out, Axis::row, {}, tensor_id + 3);
}

}  // namespace mxtape
