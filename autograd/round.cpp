#include "autograd/round.h"

#include <array>
#include <utility>

#include "kernels/calls_rows.h"
#include "kernels/narrow.h"

namespace mxtape {
namespace {

bool come_out_the_same(const Rounded& a, const Rounded& b) {
  Quantization turned = b.by;
  if (a.layout == Layout::values && serves_both_axes(b.by.quantizer) && b.by.rotation.size == 0)
    turned.axis = a.by.axis;
  return a.layout == b.layout && same_rounding(a.by, turned);
}

void take_numbers(Rounded& to, const Rounded& from) {
  to.shape = from.shape, to.elements = from.elements, to.scales = from.scales;
  to.offsets = from.offsets, to.multiplier = from.multiplier;
}

}  // namespace

void round(Backend& backend, Tensor x, Rounded* now, Rounded* later, const Tensor& column_sums, Write sums) {
  // Nothing is rounded into a narrow layout, but recoded from the wide one.
  const Layout kept = later ? later->layout : Layout::values;
  if (later) later->layout = widened(kept);
  std::array<Rounded, 2> made;
  std::array<Rounded*, 2> places{};
  std::size_t count = 0;
  const bool one = now && later && come_out_the_same(*now, *later);
  const bool again = now && later && later->by.again;
  if (one) now->site.also = later->site.slot;
  for (Rounded* const r : {now, again ? nullptr : later}) {
    if (!r || *r || (one && (count || *now || *later))) continue;
    r->shape = x.shape();
    if (is_itself(*r, x.dtype()))
      r->elements = x;
    else
      made[count] = with_room(backend, *r), places[count++] = r;
  }
  if (count || column_sums) backend.run(call::Quantize{std::span(made).first(count), x, column_sums, sums});
  for (std::size_t i = 0; i < count; ++i) take_numbers(*places[i], made[i]);
  if (one) *now ? take_numbers(*later, *now) : take_numbers(*now, *later);
  if (again && !*later) round(backend, value_of(backend, *now), nullptr, later);
  x = {};
  if (later && later->layout != kept) *later = in_layout(backend, *later, kept);
}

Rounded in_layout(Backend& backend, const Rounded& r, Layout layout) {
  if (!r || r.layout == layout) return r;
  Rounded to = r;
  to.layout = layout, to.elements = to.scales = to.offsets = {};
  to = with_room(backend, std::move(to));
  backend.run(call::Recode{to, r});
  return to;
}

Tensor value_of(Backend& backend, const Rounded& r, std::optional<DType> dtype) {
  if (r.layout == Layout::values && !r.multiplier && dtype.value_or(r.elements.dtype()) == r.elements.dtype())
    return r.elements;
  const Tensor y = backend.empty(r.shape, dtype.value_or(DType::f32));
  backend.run(call::Recode{.to = unrounded(y), .from = r});
  return y;
}

Tensor rounded(const Tape& tape, const Parameter& p, const ParameterQuant& quant, Slot slot) {
  Rounded r{.site = {quant.tensor_id, slot}, .by = {.quantizer = quant.quantizer}};
  r.by.draws = {tape.pass().seed, Purpose::rounding, quant.tensor_id, std::uint32_t(p.version), 0,
                Clock::update};
  round(tape.backend(), p.value, &r);
  return value_of(tape.backend(), r, DType::f32);
}

void multiply_through(Backend& backend, call::Gemm gemm, call::QuantizeBackward through) {
  if (through.is_identity()) return backend.run(gemm);
  const Tensor sum = gemm.c;
  const bool adds = std::exchange(gemm.write, Write::overwrite) == Write::accumulate;
  if (adds) gemm.c = backend.empty(sum.shape());
  through.dx = through.dy = gemm.c;
  backend.run(gemm);
  backend.run(through);
  if (adds) backend.run(call::Add{sum, sum, gemm.c});
}

}  // namespace mxtape
