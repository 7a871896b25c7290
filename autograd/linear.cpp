#include <array>
#include <utility>

#include "autograd/linear_keys.h"
#include "autograd/operands/operands.h"
#include "autograd/saved/saved_copy.h"
#include "autograd/weight_copies.h"

namespace mxtape {
namespace {

/// The way of the gradient of one of fprop's operands back through its rounding.
bool changes(const call::QuantizeBackward& way) { return way.rotated || way.ste.kind != SteKind::identity; }
void go_back(Backend& backend, call::QuantizeBackward way, const Tensor& gradient) {
  way.dx = way.dy = gradient;
  if (changes(way)) backend.run(way);
}

struct LinearNode final : Node {
  GradIndex x_grad, w_grad, bias_grad;
  LinearQuant quant;
  std::uint32_t tensor_id;
  std::uint64_t weight_version;
  Shape x_shape;
  SavedCopy saved_x;      // [M, K] for wgrad; without values if backward makes it again
  QuantizedCopy dgrad_w;  // [N, K] shared with the parameter, costs nothing
  Tensor w_value;         // the same
  Tensor x_value;         // [M, K] if a mask or DGE wants it; empty if backward makes it again

  const char* name() const override { return "linear"; }
  std::int64_t saved_bytes() const override { return saved_x.bytes() + x_value.bytes(); }

  void backward(Tape& tape, Tensor dy) override {
    Backend& backend = tape.backend();
    const LinearKeys keys{tape.pass(), tensor_id, weight_version, quant, backend.gemm_kernels()};
    std::array copies{keys.wanted(LinearGemm::dgrad, quant.dgrad_dy, Axis::row),
                      keys.wanted(LinearGemm::wgrad, quant.wgrad_dy, Axis::column)};
    auto& [dgrad_dy, wgrad_dy] = copies;
    const std::size_t unused = x_grad == no_grad ? 1 : 0;
    const Tape::Target bias = bias_grad == no_grad ? Tape::Target{} : tape.target(bias_grad);
    quantize_operands(backend, std::span(copies).subspan(unused), dy, "dy",
                      tape.key(Purpose::rounding, tensor_id + 2, dy.cols()), bias.grad, bias.write);
    const DType dtype = dy.dtype();
    dy = {};
    QuantizedCopy x = saved_x.take(backend);
    if (!x.values) make_x_again(tape, keys, x);

    const Tape::Target w = tape.target(w_grad);
    const auto back_to_w =
        way_back(keys, quant.fprop_w, quant.w_ste, quant.wgrad_source, w_value, keys.rounding_w());
    const bool apart = changes(back_to_w) && w.write == Write::accumulate;
    const Tensor dw = apart ? backend.empty(w.grad.shape()) : w.grad;
    backend.run(call::Gemm{.c = dw,
                           .a = operand(wgrad_dy, Trans::yes),
                           .b = operand(x),
                           .write = apart ? Write::overwrite : w.write,
                           .slot = "wgrad"});
    go_back(backend, back_to_w, dw);
    if (apart) backend.run(call::Add{w.grad, w.grad, dw});
    if (x_grad == no_grad) return;
    x = {};
    wgrad_dy = {};  // room for dx
    Tensor dx = backend.empty(x_shape, dtype);
    backend.run(
        call::Gemm{.c = as_matrix(dx), .a = operand(dgrad_dy), .b = operand(dgrad_w), .slot = "dgrad"});
    go_back(backend, way_back(keys, quant.fprop_x, quant.x_ste, quant.dgrad_source, x_value, x_draws(tape)),
            dx);
    tape.add(x_grad, std::move(dx));
  }

  /// `other` is where backward has the operand from that meets dy: the forward's copy of it is rotated, and
  /// so is the product.
  call::QuantizeBackward way_back(const LinearKeys& keys, const Quantizer& q, const StraightThrough& ste,
                                  OperandSource other, const Tensor& value, const DrawKey& draws) const {
    return {.dx = {},
            .dy = {},
            .x = value,
            .copy = keys.wanted(LinearGemm::fprop, q, Axis::row),
            .ste = ste,
            .rotated = quant.fprop_rotation.size != 0 && other != OperandSource::master,
            .draws = draws};
  }

  DrawKey x_draws(const Tape& tape) const { return tape.key(Purpose::rounding, tensor_id, x_shape.cols()); }

  /// x's producer still is on the tape: it ran before this node, so its backward comes after this one's.
  void make_x_again(Tape& tape, const LinearKeys& keys, QuantizedCopy& x) {
    const Tensor value = tape.producer(x_grad)->recompute(tape);
    if (quant.x_ste.kind != SteKind::identity) x_value = value;
    std::array copies{keys.wanted(LinearGemm::fprop, quant.fprop_x, Axis::row), x};
    const std::size_t unused = quant.wgrad_source == OperandSource::master ? 1 : 0;
    quantize_for_both(tape.backend(), std::span(copies).subspan(unused), quant.wgrad_source, value, "x",
                      x_draws(tape));
    x = std::move(copies[1]);
  }
};

}  // namespace

Var ops::linear(Tape& tape, const Var& x, Parameter& w, Parameter* bias, const LinearQuant& quant,
                std::uint32_t tensor_id) {
  const Shape in = x.value.shape(), weight = w.packed ? w.packed.shape() : w.value.shape();
  require(weight.rank == 2 && in.cols() == weight[1],
          "linear: x is {} but '{}' is {}; their last axes must agree", in.text(), w.name, weight.text());
  require(!bias || bias->value.shape() == Shape{weight[0]}, "linear: bias '{}' is {}, want [{}]",
          bias ? bias->name : "", bias ? bias->value.shape().text() : "", weight[0]);
  Backend& backend = tape.backend();
  const LinearKeys keys{tape.pass(), tensor_id, w.version, quant, backend.gemm_kernels()};
  const GradIndex w_grad = tape.watch(w), bias_grad = bias ? tape.watch(*bias) : no_grad;
  const bool recording = tape.wants({x.grad, w_grad, bias_grad});
  require(!w.packed || !recording, "linear: '{}' is packed, which can be evaluated alone", w.name);
  if (!w.packed)
    make_weight_copies(backend, w, quant, tape.pass(), tensor_id, recording && x.grad != no_grad);

  std::array copies{keys.wanted(LinearGemm::fprop, quant.fprop_x, Axis::row),
                    keys.wanted(LinearGemm::wgrad, quant.wgrad_x, Axis::column)};
  const Node* const producer = tape.producer(x.grad);
  const bool save_x = recording && !(producer && producer->recomputes());
  quantize_for_both(backend, std::span(copies).first(save_x ? 2 : 1), quant.wgrad_source, x.value, "x",
                    tape.key(Purpose::rounding, tensor_id, in.cols()));
  SavedCopy saved_x(tape, recording ? std::move(copies[1]) : QuantizedCopy{}, in);

  Shape out = in;
  out.dims[std::size_t(out.rank - 1)] = weight[0];
  Tensor y = backend.empty(out, x.value.dtype());
  const auto fprop_w = keys.wanted(LinearGemm::fprop, quant.fprop_w, Axis::row);
  backend.run(
      call::Gemm{.c = as_matrix(y),
                 .a = operand(copies[0]),
                 .b = operand(w.packed ? unpacked(backend, w.packed, fprop_w) : w.copies.fprop, Trans::yes),
                 .bias = bias ? bias->value : Tensor{},
                 .slot = "fprop"});
  const auto finished = [&](const Var& product) {
    return quant.out.is_identity() ? product
                                   : quantize(tape, product, quant.out, Axis::row, {}, tensor_id + 3);
  };
  if (!recording) return finished({std::move(y)});

  auto node = std::make_unique<LinearNode>();
  node->x_grad = x.grad;
  node->w_grad = w_grad;
  node->bias_grad = bias_grad;
  node->quant = quant;
  node->tensor_id = tensor_id;
  node->weight_version = w.version;
  node->x_shape = in;
  node->saved_x = std::move(saved_x);
  node->dgrad_w = w.copies.dgrad;
  node->w_value = w.value;
  if (save_x && x.grad != no_grad && quant.x_ste.kind != SteKind::identity) node->x_value = x.value;
  return finished(tape.record(std::move(y), {x.grad, w_grad, bias_grad}, std::move(node)));
}

}  // namespace mxtape
