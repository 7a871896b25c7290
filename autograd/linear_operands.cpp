#include "autograd/linear_operands.h"

#include <array>
#include <utility>

#include "kernels/narrow.h"

namespace mxtape {
namespace {

/// The table that the house stands on: which quantizer rounds which tensor for which GEMM, and what it meets
/// there.
struct Row {
  Quantizer LinearQuant::*quantizer, LinearQuant::*partner;
  Rotation LinearQuant::*rotation;
  std::uint32_t tensor;  ///< 0 x, 1 w, 2 dy
  std::uint32_t gemm;    ///< 0 fprop, 1 dgrad, 2 wgrad
};
using Q = LinearQuant;
constexpr std::array<Row, slots_of_linear> rows{{
    {&Q::fprop_x, &Q::fprop_w, &Q::fprop_rotation, 0, 0},
    {&Q::fprop_w, &Q::fprop_x, &Q::fprop_rotation, 1, 0},
    {&Q::dgrad_dy, &Q::dgrad_w, &Q::dgrad_rotation, 2, 1},
    {&Q::dgrad_w, &Q::dgrad_dy, &Q::dgrad_rotation, 1, 1},
    {&Q::wgrad_dy, &Q::wgrad_x, &Q::wgrad_rotation, 2, 2},
    {&Q::wgrad_x, &Q::wgrad_dy, &Q::wgrad_rotation, 0, 2},
}};

constexpr std::uint32_t another_stream = 1u << 31;  // of what is rounded again: ids of tensors are far below

/// Where backward has the operand from that meets dy.
OperandSource source_of(const LinearQuant& q, Slot slot) {
  return slot == Slot::dgrad_w   ? q.dgrad_source
         : slot == Slot::wgrad_x ? q.wgrad_source
                                 : OperandSource::master;
}

/// The signs of both operands of a GEMM. `run` and `step` share one vector between all GEMMs. fprop and dgrad
/// see a weight copy that lives for a whole optimizer step, so `call` draws theirs once per step.
DrawKey signs_of(const LinearUse& use, SignsPer per, std::uint32_t gemm) {
  DrawKey key{use.pass.seed, Purpose::hadamard_signs, 0, 0, 0};
  const auto follow = [&](Clock clock, std::uint32_t now) { key.clock = clock, key.step = now; };
  if (per == SignsPer::step || per == SignsPer::call)
    follow(Clock::update, std::uint32_t(use.weight_version));
  if (per == SignsPer::call) key.tensor_id = use.tensor_id + gemm;
  if (per == SignsPer::call && gemm == 2) follow(Clock::pass, use.pass.step);
  return key;
}

DrawKey draws_of(const LinearUse& use, std::uint32_t tensor, bool again) {
  const std::uint32_t id = (use.tensor_id + tensor) | (again ? another_stream : 0);
  if (tensor == 1)
    return {use.pass.seed, Purpose::rounding, id, std::uint32_t(use.weight_version), 0, Clock::update};
  const std::int64_t first = use.pass.first_row * use.weight[tensor == 0 ? 1 : 0];
  return {use.pass.seed, Purpose::rounding, id, use.pass.step, std::uint64_t(first), Clock::pass};
}

WeightCopies after_update(WeightCopies copies) {
  for (Rounded* copy : {&copies.fprop, &copies.dgrad})
    for (DrawKey* key : {&copy->by.signs, &copy->by.draws})
      if (key->clock == Clock::update) ++key->step;
  ++copies.version;
  return copies;
}

std::vector<Rounded> own(const Parameter& p, const WeightCopies& copies) {
  const Tensor &fprop = copies.fprop.elements, &dgrad = copies.dgrad.elements;
  std::vector<Rounded> all;
  if (p.copies.version != p.version) return all;
  if (fprop && fprop.raw() != p.value.raw()) all.push_back(copies.fprop);
  if (dgrad && dgrad.raw() != p.value.raw() && dgrad.raw() != fprop.raw()) all.push_back(copies.dgrad);
  return all;
}

}  // namespace

Rounded LinearUse::operand(Slot slot) const {
  const OperandSource source = source_of(quant, slot);
  if (source == OperandSource::shared) {  // the forward's own, summed over the other axis
    Rounded shared = operand(slot == Slot::dgrad_w ? Slot::fprop_w : Slot::fprop_x);
    shared.site.slot = slot, shared.axis = axis_of(slot), shared.shared = true;
    return shared;
  }
  const Row& row = rows[std::size_t(slot)];
  const Rotation& rotation = quant.*row.rotation;
  const bool again = source == OperandSource::forward;
  return {.site = {tensor_id, slot},
          .axis = axis_of(slot),
          .by = {quant.*row.quantizer, axis_of(slot), rotation, signs_of(*this, rotation.signs, row.gemm),
                 draws_of(*this, row.tensor, again), again},
          .layout = gemm_layout(kernels, quant.*row.quantizer, quant.*row.partner)};
}

Rounded LinearUse::kept(Slot slot, const Tape& tape) const {
  Rounded r = operand(slot);
  if (tape.kept.saved == Saved::packed)
    r.layout = waiting_layout(r.by.quantizer, r.by.axis, r.layout, tape.backend().narrows());
  return r;
}

call::QuantizeBackward LinearUse::through(Slot slot, const Tensor& value) const {
  const bool x = slot == Slot::fprop_x;
  // Where backward met the forward's copy of the other operand, that was rotated, and so is the product.
  const OperandSource met = source_of(quant, x ? Slot::dgrad_w : Slot::wgrad_x);
  return {.x = value,
          .by = operand(slot).by,
          .ste = x ? quant.x_ste : quant.w_ste,
          .rotated = quant.fprop_rotation.size != 0 && met != OperandSource::master};
}

bool LinearUse::reads_value(Slot slot) const {
  return (slot == Slot::fprop_x ? quant.x_ste : quant.w_ste).kind != SteKind::identity;
}

void check_linear(const Shape& x, const Parameter& w, const Parameter* bias) {
  const Shape weight = w.shape();
  require(weight.rank == 2 && x.cols() == weight[1],
          "linear: x is {} but '{}' is {}; their last axes must agree", x, w.name, weight);
  require(!bias || bias->value.shape() == Shape{weight[0]}, "linear: bias '{}' is {}, want [{}]",
          bias ? bias->name : "", bias ? bias->value.shape() : Shape{}, weight[0]);
}

bool make_weight_copies(Backend& backend, Parameter& w, const LinearUse& use, bool dgrad) {
  Rounded now = use.operand(Slot::fprop_w), later = use.operand(Slot::dgrad_w);
  if (w.fixed) {
    const Quantization& has = w.copies.fprop.by;
    Quantization asked = now.by;
    asked.draws = has.draws;  // what is drawn is drawn
    require(same_rounding(has, asked), "linear: a weight is packed as '{}', {}; '{}', {}, is asked for",
            has.quantizer, has.rotation, asked.quantizer, asked.rotation);
    return false;
  }
  for (Rounded* const copy : {&now, &later})
    if (copy->by.quantizer.ema) copy->average = w.average;
  const auto serves = [&](const Rounded& old, const Rounded& wanted) {
    return w.copies.version == w.version && old && old.layout == wanted.layout &&
           same_rounding(old.by, wanted.by);
  };
  const auto keep = [](Rounded& wanted, const Rounded& old) {
    const Quantization by = wanted.by;  // with this pass' keys, which the next copies count on from
    wanted = old, wanted.by = by;
  };
  if (serves(w.copies.fprop, now)) keep(now, w.copies.fprop);
  if (serves(w.copies.dgrad, later) && (now || !later.by.again)) keep(later, w.copies.dgrad);
  const bool complete = now && (later || !dgrad), both = dgrad || later;
  w.copies = {};  // the stale ones go before the new ones come
  round(backend, w.value, &now, both ? &later : nullptr);
  w.copies = {std::move(now), std::move(later), w.version};
  return !complete;
}

std::vector<Rounded> own_copies(const Parameter& p) { return own(p, p.copies); }

std::vector<Rounded> next_copies(const Parameter& p) {
  std::vector<Rounded> next = own(p, after_update(p.copies));
  std::erase_if(next, [](const Rounded& copy) { return copy.by.again || copy.average; });
  return next;
}

void make_again(Backend& backend, const Parameter& p) {
  const WeightCopies next = after_update(p.copies);
  for (const Rounded& copy : own(p, next))
    if (copy.by.again || copy.average)
      backend.run(call::Quantize{{&copy, 1}, copy.by.again ? value_of(backend, next.fprop) : p.value});
}

void count_update(Parameter& p) {
  p.copies = p.copies.version == p.version ? after_update(std::move(p.copies)) : WeightCopies{};
  ++p.version;
}

}  // namespace mxtape
