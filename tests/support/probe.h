#pragma once
#include "autograd/tape.h"
#include "tests/support/tensors.h"

namespace mxtape::test {

/// loss = sum of direction[i] x[i]: hands `direction` to an op as its dy.
inline Var dot(Tape& tape, const Var& x, const std::vector<float>& direction) {
  struct DotNode final : Node {
    GradIndex grad = no_grad;
    Tensor direction;
    const char* name() const override { return "dot"; }
    void backward(Tape& t, Tensor) override { t.add(grad, std::move(direction)); }
  };
  Backend& backend = tape.backend();
  const std::vector<float> values = download(backend, x.value);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += double(direction.at(i)) * values[i];
  auto node = std::make_unique<DotNode>();
  node->grad = x.grad;
  node->direction = upload(backend, x.value.shape(), direction);
  return tape.record(upload<float>(backend, {1}, {float(sum)}), {x.grad}, std::move(node));
}

}  // namespace mxtape::test
