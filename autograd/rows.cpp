#include <utility>

#include "autograd/ops.h"
#include "autograd/round.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

/// layer_norm, or rms_norm, which has no mean and no bias.
struct NormNode final : Node {
  GradIndex x_grad, gain_grad, bias_grad;
  Tensor x;     // [rows, C] shared with the residual stream
  Tensor mean;  // [rows]
  Tensor rstd;  // [rows] 1 / sqrt(var + eps), or of the mean square
  Tensor gain;  // [C] shared with the parameter, costs nothing, or rounded
  Tensor bias;  // the same
  float eps;
  bool recomputed;

  const char* name() const override { return mean ? "layer_norm" : "rms_norm"; }

  void forward(Backend& backend, const Tensor& y) const {
    backend.run(call::Norm{y, mean, rstd, x, gain, bias, eps});
  }

  void backward(Tape& tape, Tensor dy) override {
    Backend& backend = tape.backend();
    const Tape::Target dgain = tape.target(gain_grad);
    const Tape::Target dbias = bias_grad == no_grad ? Tape::Target{} : tape.target(bias_grad);
    Write write = dgain.write;
    if (dbias.grad && dbias.write != dgain.write) {
      // One of the two is shared with another op that came first: both add, the new one to zero.
      backend.fill(dgain.write == Write::overwrite ? dgain.grad : dbias.grad, 0);
      write = Write::accumulate;
    }
    const Tensor others = tape.take(x_grad);  // of a residual stream: what goes around the norm
    Tensor dx = dy.unique() ? dy : others && others.unique() ? others : backend.empty(dy.shape(), dy.dtype());
    backend.run(call::NormBackward{.dx = dx,
                                   .dgain = dgain.grad,
                                   .dbias = dbias.grad,
                                   .dy = dy,
                                   .x = x,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .gain = gain,
                                   .write = write,
                                   .others = others});
    tape.add(x_grad, std::move(dx));
  }

  bool recomputes() const override { return recomputed; }
  Tensor recompute(Tape& tape) const override {
    Tensor y = tape.backend().empty(x.shape(), x.dtype());
    forward(tape.backend(), y);  // writes the statistics' own bits again
    return y;
  }
};

struct EmbeddingNode final : Node {
  GradIndex table_grad, positions_grad;
  Tensor tokens;  // i32 [B, T]

  const char* name() const override { return "embedding"; }

  void backward(Tape& tape, Tensor dy) override {
    const Tape::Target table = tape.target(table_grad);
    const Tape::Target positions = positions_grad == no_grad ? Tape::Target{} : tape.target(positions_grad);
    tape.backend().run(
        call::EmbeddingBackward{table.grad, positions.grad, dy, tokens, table.write, positions.write});
  }
};

Var norm(Tape& tape, const Var& x, Parameter& gain, Parameter* bias, float eps, bool centred,
         const ParameterQuant& of_gain) {
  const Shape shape = x.value.shape(), per_column{shape.cols()};
  for (const Parameter* p : {&gain, bias})
    require(!p || p->value.shape() == per_column, "{}: x is {} but '{}' is {}, want {}",
            centred ? "layer_norm" : "rms_norm", shape, p ? p->name : "", p ? p->value.shape() : Shape{},
            per_column);
  Backend& backend = tape.backend();
  Tensor y = backend.empty(shape, x.value.dtype());
  auto node = std::make_unique<NormNode>();
  node->x = x.value;
  if (centred) node->mean = backend.empty({shape.rows()});
  node->rstd = backend.empty({shape.rows()});
  node->gain = rounded(tape, gain, of_gain, Slot::gain);
  if (bias) node->bias = bias->value;
  node->eps = eps;
  node->recomputed = tape.recomputes(Recompute::norm);
  node->forward(backend, y);

  const GradIndex gain_grad = tape.watch(gain), bias_grad = bias ? tape.watch(*bias) : no_grad;
  node->x_grad = x.grad;
  node->gain_grad = gain_grad;
  node->bias_grad = bias_grad;
  return tape.record(std::move(y), {x.grad, gain_grad, bias_grad}, std::move(node));
}

struct CrossEntropyNode final : Node {
  GradIndex logits_grad;
  Tensor dlogits;  // [rows, V] the gradient, in the logits' storage

  const char* name() const override { return "cross_entropy"; }

  void backward(Tape& tape, Tensor dy) override {
    require(tape.is_seed(dy),
            "cross_entropy: the result must be the loss itself or a term of the sum that is");
    tape.add(logits_grad, std::move(dlogits));
  }
};

}  // namespace

Var ops::layer_norm(Tape& tape, const Var& x, Parameter& gain, Parameter* bias, float eps,
                    const ParameterQuant& of_gain) {
  return norm(tape, x, gain, bias, eps, true, of_gain);
}

Var ops::rms_norm(Tape& tape, const Var& x, Parameter& gain, float eps, const ParameterQuant& of_gain) {
  return norm(tape, x, gain, nullptr, eps, false, of_gain);
}

Var ops::embedding(Tape& tape, const Tensor& tokens, Parameter& table, Parameter* positions, DType dtype,
                   const ParameterQuant& of_table) {
  const Shape t = tokens.shape(), v = table.value.shape();
  require(t.rank == 2 && tokens.dtype() == DType::i32, "embedding: tokens are {} {}, want i32 [B, T]",
          name_of(tokens.dtype()), t);
  require(v.rank == 2, "embedding: '{}' is {}, want [V, C]", table.name, v);
  const Shape p = positions ? positions->value.shape() : v;
  require(!positions || (p.rank == 2 && p[0] >= t[1] && p[1] == v[1]),
          "embedding: '{}' is {}, want [>= {}, {}]", positions ? positions->name : "", p, t[1], v[1]);
  Tensor y = tape.backend().empty({t[0], t[1], v[1]}, dtype);
  tape.backend().run(call::Embedding{y, rounded(tape, table, of_table, Slot::table),
                                     positions ? positions->value : Tensor{}, tokens});

  const GradIndex table_grad = tape.watch(table),
                  positions_grad = positions ? tape.watch(*positions) : no_grad;
  auto node = std::make_unique<EmbeddingNode>();
  node->table_grad = table_grad;
  node->positions_grad = positions_grad;
  node->tokens = tokens;
  return tape.record(std::move(y), {table_grad, positions_grad}, std::move(node));
}

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
