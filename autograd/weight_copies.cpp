#include "autograd/weight_copies.h"

#include <utility>

#include "autograd/linear_keys.h"
#include "autograd/operands/operands.h"
#include "kernels/gemm/room.h"

namespace mxtape {
namespace {

DrawKey after_update(DrawKey key) {
  if (key.clock == Clock::update) ++key.step;
  return key;
}

WeightCopies after_update(WeightCopies copies) {
  for (QuantizedCopy* copy : {&copies.fprop, &copies.dgrad}) copy->signs = after_update(copy->signs);
  copies.draws = after_update(copies.draws);
  ++copies.version;
  return copies;
}

/// Calls f with each copy that has memory of its own.
template <class F>
void for_own_copies(const Parameter& p, const WeightCopies& copies, const F& f) {
  const Tensor &fprop = copies.fprop.values, &dgrad = copies.dgrad.values;
  if (fprop && fprop.raw() != p.value.raw()) f(copies.fprop);
  if (dgrad && dgrad.raw() != p.value.raw() && !(fprop && dgrad.raw() == fprop.raw())) f(copies.dgrad);
}

}  // namespace

bool make_weight_copies(Backend& backend, Parameter& w, const LinearQuant& quant, const PassKey& pass,
                        std::uint32_t tensor_id, bool dgrad) {
  const LinearKeys keys{pass, tensor_id, w.version, quant, backend.gemm_kernels()};
  const OperandSource source = quant.dgrad_source;
  std::array fresh{keys.wanted(LinearGemm::fprop, quant.fprop_w, Axis::row),
                   keys.wanted(LinearGemm::dgrad, quant.dgrad_w, Axis::column)};
  if (source == OperandSource::shared) fresh[1] = fresh[0];
  const bool current = w.copies.version == w.version;
  if (current && same_recipe(w.copies.fprop, fresh[0])) fresh[0] = w.copies.fprop;
  if (current && same_recipe(w.copies.dgrad, fresh[1]) && w.copies.source == source &&
      (source == OperandSource::master || fresh[0].values))
    fresh[1] = w.copies.dgrad;
  const bool complete = fresh[0].values && (fresh[1].values || !dgrad);
  const bool keep_dgrad = dgrad || fresh[1].values;
  w.copies = {};  // the stale ones go before the new ones come
  quantize_for_both(backend, std::span(fresh).first(keep_dgrad ? 2 : 1), source, w.value, "w",
                    keys.rounding_w());
  w.copies = {std::move(fresh[0]), std::move(fresh[1]), keys.rounding_w(), source, w.version};
  return !complete;
}

NextCopies::NextCopies(const Parameter& p) {
  if (p.copies.version != p.version) return;
  const WeightCopies next = after_update(p.copies);
  const bool from_forward = next.source == OperandSource::forward;
  for_own_copies(p, next, [&](const QuantizedCopy& copy) {
    if (from_forward && &copy == &next.dgrad)
      forward_ = next.fprop, again_ = copy;
    else
      copies_[count_++] = copy;
  });
  draws_ = next.draws;
}

void NextCopies::make_from_forward(Backend& backend) const {
  if (again_.values) quantize_again(backend, again_, forward_, "w", draws_);
}

std::int64_t own_bytes_of_copies(const Parameter& p) {
  std::int64_t bytes = 0;
  for_own_copies(p, p.copies, [&](const QuantizedCopy& copy) { bytes += bytes_of(copy); });
  return bytes;
}

void count_update(Parameter& p) {
  p.copies = p.copies.version == p.version ? after_update(std::move(p.copies)) : WeightCopies{};
  ++p.version;
}

}  // namespace mxtape
