#include <utility>

#include "autograd/operands/operands.h"
#include "autograd/ops.h"

namespace mxtape {
namespace {

struct QuantizeNode final : Node {
  GradIndex x_grad;
  QuantizedCopy copy;  // how x was rounded; without values
  StraightThrough ste;
  DrawKey draws;
  Tensor x;  // [rows, C]; empty for the identity

  const char* name() const override { return "quantize"; }
  std::int64_t saved_bytes() const override { return x.bytes(); }

  void backward(Tape& tape, Tensor dy) override {
    if (ste.kind != SteKind::identity) {
      const Tensor dx = dy.unique() ? dy : tape.backend().empty(dy.shape(), dy.dtype());
      tape.backend().run(
          call::QuantizeBackward{.dx = dx, .dy = dy, .x = x, .copy = copy, .ste = ste, .draws = draws});
      dy = dx;
    }
    tape.add(x_grad, std::move(dy));
  }
};

}  // namespace

Var ops::quantize(Tape& tape, const Var& x, const Quantizer& q, Axis axis, const StraightThrough& ste,
                  std::uint32_t tensor_id) {
  Backend& backend = tape.backend();
  QuantizedCopy copy{.quantizer = q, .axis = axis};
  const DrawKey draws = tape.key(Purpose::rounding, tensor_id, x.value.cols());
  quantize_operands(backend, std::span(&copy, 1), x.value, "value", draws);
  Tensor y = copy.values;
  if (copy.multiplier || y.dtype() != x.value.dtype()) {
    y = backend.empty(x.value.shape(), x.value.dtype());
    backend.run(call::Dequantize{y, copy});
  }
  if (!tape.wants({x.grad})) return {std::move(y)};
  auto node = std::make_unique<QuantizeNode>();
  node->x_grad = x.grad;
  node->copy = {.quantizer = q, .axis = axis};
  node->ste = ste;
  node->draws = draws;
  if (ste.kind != SteKind::identity) node->x = x.value;
  return tape.record(std::move(y), {x.grad}, std::move(node));
}

}  // namespace mxtape
