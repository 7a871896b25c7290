#include "kernels/around/tracing_backend.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/around/written.h"
#include "kernels/calls_rows.h"
#include "kernels/codec/narrow.h"

namespace mxtape {
namespace {

template <class T>
void add_new(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

}  // namespace

void TracingBackend::start() {
  made_.clear();
  trace_ = {};
  on_ = true;
}

TracingBackend::Trace TracingBackend::stop() {
  on_ = false;
  return std::move(trace_);
}

void TracingBackend::enter(std::string_view layer, bool backward) {
  layer_ = layer;
  inner_.enter(layer, backward);
}

void TracingBackend::dispatch(AnyCall any) {
  inner_.dispatch(any);
  if (on_) std::visit([&](const auto* call) { note(*call); }, any);
}

void TracingBackend::note(const auto& call) {
  using Call = std::decay_t<decltype(call)>;
  if constexpr (std::is_same_v<Call, call::Gemm>) note_product(call);
  if constexpr (std::is_same_v<Call, call::Recode>)
    if (is_narrow(call.to.layout) || is_narrow(call.from.layout))
      return follow(call.from.elements, call.to.elements);
  if constexpr (std::is_same_v<Call, call::Attention> || std::is_same_v<Call, call::AttentionBackward>)
    add_new(trace_.attention[layer_], call.quant);
  call.each(call, [&](Role role, std::string_view name, const Tensor& x) {
    if (x && is_written(role, name)) made_.erase(x.raw());
  });
  if constexpr (std::is_same_v<Call, call::AdamW>) note_roundings(call.copies);
  if constexpr (std::is_same_v<Call, call::Quantize>) note_roundings(call.to);
  if constexpr (std::is_same_v<Call, call::QuantizeBackward>) {
    if (!layer_.empty() && call.ste.kind != SteKind::identity)
      add_new(trace_.ways_back[layer_], WayBack{call.by.quantizer, call.ste});
  }
}

void TracingBackend::note_product(const call::Gemm& call) {
  if (layer_.empty() || call.a.site.slot == Slot::none) return;
  add_new(trace_.gemms[layer_][std::string(gemm_of(call.a.site.slot))],
          {side_of(call.a.elements), side_of(call.b.elements), inner_.last_gemm()});
}

void TracingBackend::note_roundings(std::span<const Rounded> made) {
  for (const Rounded& r : made) {
    made_[r.elements.raw()] = {r.by.quantizer, r.by.rotation, r.by.again};
    if (!layer_.empty() && r.site.slot >= Slot::value && r.site.slot != Slot::none)
      add_new(trace_.roundings[layer_][std::string(tensor_of(r.site.slot))], r.by.quantizer);
  }
}

void TracingBackend::follow(const Tensor& from, const Tensor& to) {
  const auto made = made_.find(from.raw());
  if (made == made_.end())
    made_.erase(to.raw());
  else
    made_[to.raw()] = made->second;
}

TracingBackend::Side TracingBackend::side_of(const Tensor& x) const {
  const auto made = made_.find(x.raw());
  if (made != made_.end()) return made->second;
  return {x.dtype() == DType::bf16 ? bf16_cast : f32_passthrough, {}};
}

}  // namespace mxtape
