// An op of one's own on the tape: squared ReLU, y = max(0, x)^2 (So et al. 2021, arXiv:2109.08668), between
// two linear layers. Its gradient is checked against a difference quotient.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "kernels/choose/make_backend.h"

namespace {

using namespace mxtape;

/// What backward needs, and backward itself. It loops over host memory: for the CPU only.
struct SquaredReluNode final : Node {
  GradIndex x_grad = no_grad;
  Tensor x;

  const char* name() const override { return "squared_relu"; }

  void backward(Tape& tape, Tensor dy) override {
    const Tensor dx = dy.unique() ? dy : tape.backend().empty(dy.shape());
    for (std::size_t i = 0; i < x.host().size(); ++i)
      dx.host()[i] = 2 * std::max(0.0f, x.host()[i]) * dy.host()[i];
    tape.add(x_grad, dx);
  }
};

Var squared_relu(Tape& tape, const Var& x) {
  require(x.value.dtype() == DType::f32, "squared_relu: x is {}, want f32", name_of(x.value.dtype()));
  const Tensor y = tape.backend().empty(x.value.shape());
  for (std::size_t i = 0; i < y.host().size(); ++i)
    y.host()[i] = x.value.host()[i] * std::max(0.0f, x.value.host()[i]);
  if (!tape.wants({x.grad})) return {y};
  auto node = std::make_unique<SquaredReluNode>();
  node->x_grad = x.grad;
  node->x = x.value;
  return tape.record(y, {x.grad}, std::move(node));
}

constexpr std::int64_t rows = 16, width = 24, classes = 5;

Tensor normal(Backend& backend, Shape shape, std::uint32_t id, float deviation) {
  const Tensor x = backend.empty(shape);
  backend.run(call::Normal{x, deviation, DrawKey{.purpose = Purpose::initialisation, .tensor_id = id}});
  return x;
}

/// Linear, squared ReLU, linear, cross entropy. LinearQuant{} rounds nothing: the loss is smooth.
struct Net {
  Backend& backend;
  Parameter up{.name = "up", .value = normal(backend, {width, width}, 1, 0.3f)};
  Parameter down{.name = "down", .value = normal(backend, {classes, width}, 2, 0.3f)};
  Tensor x = normal(backend, {rows, width}, 3, 1);
  Tensor targets = backend.empty({rows}, DType::i32);

  float loss(Tape::Mode mode) {
    Tape tape(backend, mode);
    const Var hidden = squared_relu(tape, ops::linear(tape, {x}, up, nullptr, LinearQuant{}, 0));
    const Var logits = ops::linear(tape, hidden, down, nullptr, LinearQuant{}, 4);
    const Var loss = ops::cross_entropy(tape, logits, targets);
    if (mode == Tape::Mode::training) tape.backward(loss);
    return loss.value.host()[0];
  }
  /// up += step * direction.
  void move(float step, const Tensor& direction) {
    const auto w = up.value.host(), d = direction.host();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += step * d[i];
    up.written(up.version + 1);
  }
};

}  // namespace

int main() {
  const auto backend = make_backend("cpu");
  Net net{*backend};
  for (std::int32_t i = 0; i < rows; ++i) net.targets.host<std::int32_t>()[std::size_t(i)] = i % classes;
  fmt::print("loss {:.4f}\n", net.loss(Tape::Mode::training));

  const Tensor direction = normal(*backend, {width, width}, 4, 1);
  double derivative = 0;
  for (std::size_t i = 0; i < direction.host().size(); ++i)
    derivative += double(net.up.grad.host()[i]) * double(direction.host()[i]);
  // Central: its error falls with the step's square, that of the f32 losses grows as one over the step.
  constexpr float step = 1e-3f;
  net.move(step, direction);
  const double ahead = net.loss(Tape::Mode::evaluation);
  net.move(-2 * step, direction);
  const double behind = net.loss(Tape::Mode::evaluation);
  const double quotient = (ahead - behind) / (2 * double(step));
  const bool agree = std::abs(derivative - quotient) < 1e-3 * (1 + std::abs(quotient));
  fmt::print("along a random direction: gradient {:.5f}, difference quotient {:.5f}: {}\n", derivative,
             quotient, agree ? "they agree" : "they do not agree");
  return agree ? 0 : 1;
}
