#include "kernels/observers/trace.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/narrow.h"

namespace mxtape {
namespace {

template <class T>
void add_new(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

Trace::Side side_of(const Quantization& by) { return {by.quantizer, by.rotation, by.again}; }

/// `held`: what rounded into the operand's memory, if something did.
bool says_what_it_is(const Rounded& operand, const Quantization* held) {
  // What nothing rounds again is the forward's own.
  const bool itself = is_itself(operand, operand.elements.dtype());
  if (!held || (itself && operand.by.again)) return itself;
  Quantization turned = operand.by;
  if (serves_both_axes(held->quantizer)) turned.axis = held->axis;
  return same_rounding(*held, turned);
}

}  // namespace

void Trace::start() {
  made_.clear();
  found_ = {};
  on_ = true;
}

Trace::Found Trace::stop() {
  on_ = false;
  return std::move(found_);
}

void Trace::after(const Seen& seen) {
  if (on_) visit([&](const auto* call) { note(*call, seen); }, seen.call);
}

void Trace::note(const auto& call, const Seen& seen) {
  using Call = std::decay_t<decltype(call)>;
  const std::string layer(seen.layer);
  if constexpr (std::is_same_v<Call, call::Gemm>) note_product(call, seen);
  if constexpr (std::is_same_v<Call, call::Attention> || std::is_same_v<Call, call::AttentionBackward>)
    add_new(found_.attention[layer], call.quant);
  std::optional<Quantization> recoded;
  if constexpr (std::is_same_v<Call, call::Recode>)  // the same numbers in another form
    if (const auto* const from = made(call.from.elements);
        from && (is_narrow(call.to.layout) || is_narrow(call.from.layout)))
      recoded = *from;
  call.each(call, [&](Role role, std::string_view name, const Tensor& x) {
    if (x && is_written(role, name)) made_.erase(x.raw());
  });
  if constexpr (std::is_same_v<Call, call::Recode>)
    if (recoded) made_[call.to.elements.raw()] = *recoded;
  if constexpr (std::is_same_v<Call, call::AdamW>) note_roundings(call.copies, layer);
  if constexpr (std::is_same_v<Call, call::Quantize>) note_roundings(call.to, layer);
  if constexpr (std::is_same_v<Call, call::QuantizeBackward>) {
    if (!layer.empty() && call.ste.kind != SteKind::identity)
      add_new(found_.ways_back[layer], WayBack{call.by.quantizer, call.ste});
  }
}

void Trace::note_product(const call::Gemm& call, const Seen& seen) {
  if (seen.layer.empty() || call.a.site.slot == Slot::none) return;
  const std::string layer(seen.layer);
  add_new(found_.gemms[layer][std::string(gemm_of(call.a.site.slot))],
          {side_of(call.a.elements), side_of(call.b.elements), seen.device.last_gemm()});
  for (const Rounded* const side : {&call.a, &call.b})
    if (!says_what_it_is(*side, made(side->elements)))
      add_new(found_.mislabelled,
              {layer, side->site.slot, mxtape::side_of(side->by), side_of(side->elements)});
}

void Trace::note_roundings(std::span<const Rounded> all, const std::string& layer) {
  for (const Rounded& r : all) {
    made_[r.elements.raw()] = r.by;
    if (!layer.empty() && r.site.slot >= Slot::value && r.site.slot != Slot::none)
      add_new(found_.roundings[layer][std::string(tensor_of(r.site.slot))], r.by.quantizer);
  }
}

const Quantization* Trace::made(const Tensor& x) const {
  const auto found = made_.find(x.raw());
  return found == made_.end() ? nullptr : &found->second;
}

Trace::Side Trace::side_of(const Tensor& x) const {
  if (const Quantization* const by = made(x)) return mxtape::side_of(*by);
  return {x.dtype() == DType::bf16 ? bf16_cast : f32_passthrough, {}};
}

}  // namespace mxtape
