#include "kernels/rounded.h"

#include <tuple>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/gemm_codes.h"
#include "kernels/narrow.h"

namespace mxtape {

bool serves_both_axes(const Quantizer& q) {
  // An offset, or flushing by the block's largest magnitude, ties elements together even without a scale.
  const bool elementwise = q.scale == ScaleKind::none && q.offset == Offset::none && !q.flush_subnormals;
  return elementwise || q.block.along == q.block.across;
}

bool same_rounding(const Quantization& a, const Quantization& b) {
  return a.quantizer == b.quantizer && a.axis == b.axis && a.rotation == b.rotation && a.again == b.again &&
         (a.rotation.size == 0 || a.signs == b.signs) && (!a.quantizer.is_stochastic() || a.draws == b.draws);
}

bool is_itself(const Rounded& r, DType x) {
  const bool rounded = x == DType::bf16 && r.by.quantizer == bf16_cast;
  return (r.by.quantizer.is_identity() || rounded) && r.by.rotation.size == 0 && r.layout == Layout::values;
}

Rounded Rounded::rows(std::int64_t first, std::int64_t count) const {
  require(layout == Layout::values || layout == Layout::stored, "{}: rows of codes, which lie in panels",
          name_of(site.slot));
  Rounded part = *this;
  part.shape = {count, cols()};
  part.by.draws.first_element += std::uint64_t(first * cols());
  if (layout == Layout::values) {
    if (elements) part.elements = elements.part(first * cols(), part.shape);
    return part;
  }
  const PackedLayout before = packed_layout(by.quantizer, first, cols(), by.axis),
                     size = packed_layout(by.quantizer, count, cols(), by.axis);
  for (const auto& [bytes, begin, length] : {std::tuple(&part.elements, before.codes, size.codes),
                                             {&part.scales, before.scales, size.scales},
                                             {&part.offsets, before.offsets, size.offsets}})
    if (*bytes) *bytes = bytes->part(begin, {length});
  return part;
}

Rounded with_room(Backend& backend, Rounded r) {
  const auto bytes = [&](std::int64_t count) {
    return count > 0 ? backend.empty({count}, DType::u8) : Tensor{};
  };
  if (r.layout == Layout::values) {
    r.elements = backend.empty(r.shape, r.by.quantizer.operand_dtype());
  } else if (r.layout == Layout::codes) {
    const CodeLayout at = code_layout(r);
    r.scales = backend.empty(at.scales());
    r.elements = backend.empty(at.codes(), DType::u8);
  } else {
    const PackedLayout size = bytes_when_packed(r);
    r.elements = bytes(size.codes), r.scales = bytes(size.scales), r.offsets = bytes(size.offsets);
  }
  if (r.by.quantizer.has_multiplier() && !r.multiplier) r.multiplier = backend.empty({1});
  return r;
}

std::int64_t bytes_of_parts(const Rounded& r) {
  if (r.layout == Layout::values) return r.shape.count() * size_of(r.by.quantizer.operand_dtype());
  if (r.layout == Layout::codes) {
    const CodeLayout at = code_layout(r);
    return at.codes().count() + at.scales().count() * std::int64_t(sizeof(float));
  }
  const PackedLayout size = bytes_when_packed(r);
  return size.codes + size.scales + size.offsets;
}

std::string loss_when_stored(const Quantizer& q, Layout layout) {
  if (q.has_group_scale()) return "outer scales, which have no stored form";
  // What is no number stays none: in its block's scale, or without one in the element.
  const bool keeps_nan = q.scale == ScaleKind::none       ? has_nan(q.element)
                         : q.scale == ScaleKind::floating ? has_nan(q.scale_format)
                                                          : true;
  if (!keeps_nan) return "no code for NaN";
  if (q.element.is_integer() && layout == Layout::values)
    return "integers, whose codes have no negative zero";
  return "";
}

}  // namespace mxtape
