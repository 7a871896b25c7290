#include "autograd/operands/operands.h"

#include <array>
#include <utility>

#include "kernels/gemm/room.h"

namespace mxtape {
namespace {

/// True if x is its own copy: nothing rounds it, or it is bf16 as wanted.
bool is_source(const QuantizedCopy& copy, const Tensor& x) {
  const bool rounded = x.dtype() == DType::bf16 && copy.quantizer == bf16_cast;
  return (copy.quantizer.is_identity() || rounded) && copy.rotation.size == 0 && copy.form == Form::values;
}

bool share(const QuantizedCopy& a, const QuantizedCopy& b) {
  return a.quantizer == b.quantizer && a.rotation.size == 0 && b.rotation.size == 0 && a.form == b.form &&
         (a.axis == b.axis || (serves_both_axes(a.quantizer) && a.form == Form::values));
}

/// Roundings of what was rounded before: ids of tensors are far below.
DrawKey another_stream(DrawKey draws) {
  draws.tensor_id |= 1u << 31;
  return draws;
}
/// "x" rounded again, for reports and for TracingBackend.
std::string_view again(std::string_view slot) { return slot == "w" ? "w again" : "x again"; }

}  // namespace

bool serves_both_axes(const Quantizer& q) {
  // An offset, or flushing by the block's largest magnitude, ties elements together even without a scale.
  const bool elementwise = q.scale == ScaleKind::none && q.offset == Offset::none && !q.flush_subnormals;
  return elementwise || q.block.along == q.block.across;
}

bool same_recipe(const QuantizedCopy& made, const QuantizedCopy& wanted) {
  if (!made.values || made.quantizer != wanted.quantizer || made.axis != wanted.axis ||
      made.form != wanted.form || made.rotation != wanted.rotation)
    return false;
  const DrawKey &a = made.signs, &b = wanted.signs;
  return made.rotation.size == 0 || (a.seed == b.seed && a.tensor_id == b.tensor_id && a.step == b.step);
}

void quantize_operands(Backend& backend, std::span<QuantizedCopy> copies, const Tensor& x,
                       std::string_view slot, const DrawKey& draws, const Tensor& column_sums, Write sums) {
  require(copies.size() <= 2, "quantize_operands: {} copies, want at most 2", copies.size());
  std::array<QuantizedCopy, 2> pending;
  std::size_t pending_count = 0;
  const bool one_for_both = copies.size() == 2 && share(copies[0], copies[1]);
  for (QuantizedCopy& copy : copies) {
    if (copy.values) continue;
    if (is_source(copy, x)) {
      copy.values = x;
    } else if (!(one_for_both && (pending_count || copies[0].values || copies[1].values))) {
      make_room(backend, copy, x.shape());
      pending[pending_count++] = copy;
    }
  }
  if (pending_count || column_sums)
    backend.run(call::Quantize{std::span(pending).first(pending_count), x, draws, column_sums, sums, slot});
  if (one_for_both) {
    const QuantizedCopy& made = copies[0].values ? copies[0] : copies[1];
    for (QuantizedCopy& copy : copies) {
      copy.values = made.values, copy.multiplier = made.multiplier;
      copy.scales = made.scales, copy.layout = made.layout;
    }
  }
}

void quantize_for_both(Backend& backend, std::span<QuantizedCopy> copies, OperandSource source,
                       const Tensor& x, std::string_view slot, const DrawKey& draws) {
  if (source == OperandSource::master) return quantize_operands(backend, copies, x, slot, draws);
  quantize_operands(backend, copies.first(1), x, slot, draws);
  if (copies.size() < 2 || copies[1].values) return;
  if (source == OperandSource::shared)
    copies[1] = copies[0];
  else
    quantize_operands(backend, copies.subspan(1), worth(backend, copies[0]), again(slot),
                      another_stream(draws));
}

void quantize_again(Backend& backend, const QuantizedCopy& copy, const QuantizedCopy& forward,
                    std::string_view slot, const DrawKey& draws) {
  backend.run(call::Quantize{.copies = std::span(&copy, 1),
                             .x = worth(backend, forward),
                             .draws = another_stream(draws),
                             .slot = again(slot)});
}

Tensor worth(Backend& backend, const QuantizedCopy& copy) {
  const bool codes = copy.form == Form::codes;
  if (!codes && !copy.multiplier) return copy.values;
  const CodeLayout& at = copy.layout;
  Tensor y = backend.empty(!codes                   ? copy.values.shape()
                           : copy.axis == Axis::row ? Shape{at.lines, at.depth}
                                                    : Shape{at.depth, at.lines});
  backend.run(call::Dequantize{y, copy});
  return y;
}

Tensor rounded(const Tape& tape, const Parameter& p, const ParameterQuant& quant, std::string_view slot) {
  Backend& backend = tape.backend();
  QuantizedCopy copy{.quantizer = quant.quantizer};
  quantize_operands(
      backend, std::span(&copy, 1), p.value, slot,
      {tape.pass().seed, Purpose::rounding, quant.tensor_id, std::uint32_t(p.version), 0, Clock::update});
  if (copy.values.dtype() == DType::f32 && !copy.multiplier) return copy.values;
  Tensor y = backend.empty(p.value.shape());
  backend.run(call::Dequantize{y, copy});
  return y;
}

Operand operand(const QuantizedCopy& copy, Trans trans) {
  if (copy.form == Form::codes) return {copy.values, trans, copy.multiplier, copy.scales, copy.layout};
  return {as_matrix(copy.values), trans, copy.multiplier};
}

Tensor as_matrix(const Tensor& x) { return x.shape().rank == 2 ? x : x.reshaped({x.rows(), x.cols()}); }

}  // namespace mxtape
