#include <utility>

#include "autograd/round.h"

namespace mxtape {
namespace {

struct QuantizeNode final : Node {
  GradIndex x_grad;
  Quantization by;
  StraightThrough ste;
  Tensor x;  // [rows, C]; empty for the identity

  const char* name() const override { return "quantize"; }

  void backward(Tape& tape, Tensor dy) override {
    if (ste.kind != SteKind::identity) {
      const Tensor dx = dy.unique() ? dy : tape.backend().empty(dy.shape(), dy.dtype());
      tape.backend().run(call::QuantizeBackward{.dx = dx, .dy = dy, .x = x, .by = by, .ste = ste});
      dy = dx;
    }
    tape.add(x_grad, std::move(dy));
  }
};

}  // namespace

Var ops::quantize(Tape& tape, const Var& x, const Quantizer& q, Axis axis, const StraightThrough& ste,
                  std::uint32_t tensor_id) {
  Rounded r{
      .site = {tensor_id, Slot::value},
      .by = {.quantizer = q, .axis = axis, .draws = tape.key(Purpose::rounding, tensor_id, x.value.cols())}};
  round(tape.backend(), x.value, &r);
  Tensor y = value_of(tape.backend(), r, x.value.dtype());
  auto node = std::make_unique<QuantizeNode>();
  node->x_grad = x.grad;
  node->by = r.by;
  node->ste = ste;
  if (ste.kind != SteKind::identity) node->x = x.value;
  return tape.record(std::move(y), {x.grad}, std::move(node));
}

}  // namespace mxtape
