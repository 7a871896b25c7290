#include <utility>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

struct CrossEntropyNode final : Node {
  GradIndex logits_grad;
  Tensor dlogits;  // [rows, V] the gradient, in the logits' storage

  const char* name() const override { return "cross_entropy"; }
  std::int64_t saved_bytes() const override { return dlogits.bytes(); }

  void backward(Tape& tape, Tensor dy) override {
    require(tape.is_seed(dy),
            "cross_entropy: the result must be the loss itself or a term of the sum that is");
    tape.add(logits_grad, std::move(dlogits));
  }
};

}  // namespace

Var ops::cross_entropy(Tape& tape, const Var& logits, const Tensor& targets, float scale, Tensor* losses) {
  const Shape s = logits.value.shape();
  require(targets.dtype() == DType::i32 && targets.count() == s.rows(),
          "cross_entropy: logits are {} but targets are {} {}; want one i32 target a row", s,
          name_of(targets.dtype()), targets.shape());
  Backend& backend = tape.backend();
  Tensor loss = backend.empty({1}), per_row = backend.empty({s.rows()});
  const bool recording = tape.wants({logits.grad});
  backend.run(
      call::CrossEntropy{loss, per_row, recording ? logits.value : Tensor{}, logits.value, targets, scale});
  if (losses) *losses = std::move(per_row);
  if (!recording) return {std::move(loss)};
  auto node = std::make_unique<CrossEntropyNode>();
  node->logits_grad = logits.grad;
  node->dlogits = logits.value;
  return tape.record(std::move(loss), {logits.grad}, std::move(node));
}

}  // namespace mxtape
