#include <optional>
#include <utility>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

/// GELU of x, or SwiGLU of x [..., 2 F].
struct ActivationNode final : Node {
  GradIndex x_grad;
  Tensor x;
  Shape y_shape;
  std::optional<Gelu> form;  // none: swiglu
  bool recomputed;

  const char* name() const override { return form ? "gelu" : "swiglu"; }

  void backward(Tape& tape, Tensor dy) override {
    const Tensor& reused = form ? dy : x;
    Tensor dx = reused.unique() ? reused : tape.backend().empty(x.shape(), x.dtype());
    if (form)
      tape.backend().run(call::GeluBackward{dx, dy, x, *form});
    else
      tape.backend().run(call::SwigluBackward{dx, dy, x});
    dy = {}, x = {};
    tape.add(x_grad, std::move(dx));
  }

  bool recomputes() const override { return recomputed; }
  Tensor recompute(Tape& tape) const override {
    Tensor y = tape.backend().empty(y_shape, x.dtype());
    if (form)
      tape.backend().run(call::Gelu{y, x, *form});
    else
      tape.backend().run(call::Swiglu{y, x});
    return y;
  }
};

Var activation(Tape& tape, const Var& x, const Shape& y_shape, std::optional<Gelu> form) {
  auto node = std::make_unique<ActivationNode>();
  node->x_grad = x.grad;
  node->x = x.value;
  node->y_shape = y_shape;
  node->form = form;
  node->recomputed = tape.recomputes(Recompute::gelu);
  Tensor y = node->recompute(tape);
  return tape.record(std::move(y), {x.grad}, std::move(node));
}

struct AddNode final : Node {
  GradIndex a_grad, b_grad;

  const char* name() const override { return "add"; }

  void backward(Tape& tape, Tensor dy) override {
    tape.add(a_grad, dy);
    tape.add(b_grad, std::move(dy));
  }
};

struct DropoutNode final : Node {
  GradIndex x_grad;
  float p;
  DrawKey key;

  const char* name() const override { return "dropout"; }

  /// Backward is the same draw on dy.
  Tensor drop(Backend& backend, const Tensor& x) const {
    Tensor y = x.unique() ? x : backend.empty(x.shape(), x.dtype());
    backend.run(call::Dropout{y, x, p, key});
    return y;
  }
  void backward(Tape& tape, Tensor dy) override { tape.add(x_grad, drop(tape.backend(), dy)); }
};

}  // namespace

Var ops::gelu(Tape& tape, const Var& x, Gelu form) { return activation(tape, x, x.value.shape(), form); }

Var ops::add(Tape& tape, const Var& a, Var b) {
  require(a.value.shape() == b.value.shape() && a.value.dtype() == b.value.dtype(),
          "add: a is {} {} but b is {} {}; they must agree", name_of(a.value.dtype()), a.value.shape(),
          name_of(b.value.dtype()), b.value.shape());
  Tensor y = b.value.unique() ? b.value : tape.backend().empty(a.value.shape(), a.value.dtype());
  tape.backend().run(call::Add{y, a.value, b.value});
  auto node = std::make_unique<AddNode>();
  node->a_grad = a.grad;
  node->b_grad = b.grad;
  return tape.record(std::move(y), {a.grad, b.grad}, std::move(node));
}

Var ops::dropout(Tape& tape, Var x, float p, std::uint32_t tensor_id) {
  require(p >= 0 && p < 1, "dropout: p is {}, want a number in [0, 1)", p);
  if (!tape.training() || p == 0) return x;
  auto node = std::make_unique<DropoutNode>();
  node->x_grad = x.grad;
  node->p = p;
  node->key = tape.key(Purpose::dropout, tensor_id, x.value.cols());
  Tensor y = node->drop(tape.backend(), x.value);
  return tape.record(std::move(y), {x.grad}, std::move(node));
}

Var ops::swiglu(Tape& tape, const Var& x) {
  Shape shape = x.value.shape();
  require(shape.rank > 0 && shape.cols() % 2 == 0, "swiglu: x is {}, want [..., 2 F]", shape);
  shape.dims[std::size_t(shape.rank - 1)] /= 2;
  return activation(tape, x, shape, {});
}

}  // namespace mxtape
