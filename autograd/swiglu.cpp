#include <utility>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

struct SwigluNode final : Node {
  GradIndex x_grad;
  Tensor x;  // [..., 2 F]
  Shape y_shape;
  bool recomputed;

  const char* name() const override { return "swiglu"; }
  std::int64_t saved_bytes() const override { return x.bytes(); }

  void backward(Tape& tape, Tensor dy) override {
    Tensor dx = x.unique() ? x : tape.backend().empty(x.shape(), x.dtype());
    tape.backend().run(call::SwigluBackward{dx, dy, x});
    dy = {}, x = {};
    tape.add(x_grad, std::move(dx));
  }

  bool recomputes() const override { return recomputed; }
  Tensor recompute(Tape& tape) const override {
    Tensor y = tape.backend().empty(y_shape, x.dtype());
    tape.backend().run(call::Swiglu{y, x});
    return y;
  }
};

}  // namespace

Var ops::swiglu(Tape& tape, const Var& x) {
  Shape shape = x.value.shape();
  require(shape.rank > 0 && shape.cols() % 2 == 0, "swiglu: x is {}, want [..., 2 F]", shape);
  shape.dims[std::size_t(shape.rank - 1)] /= 2;
  Tensor y = tape.backend().empty(shape, x.value.dtype());
  tape.backend().run(call::Swiglu{y, x.value});
  if (!tape.wants({x.grad})) return {std::move(y)};
  auto node = std::make_unique<SwigluNode>();
  node->x_grad = x.grad;
  node->x = x.value;
  node->y_shape = shape;
  node->recomputed = tape.recomputes(Recompute::gelu);
  return tape.record(std::move(y), {x.grad}, std::move(node));
}

}  // namespace mxtape
