#pragma once
#include "core/error.h"
#include "formats/codec/block_codec.h"
#include "kernels/gemm_codes.h"

namespace mxtape {

/// The narrow layouts hold the numbers in the order in which they lie in the wide ones, eight codes in as
/// many bytes as a code has bits, lowest bit first. Only what comes back bit for bit can be narrow, the signs
/// of zeros too; NaNs come back as NaNs.
///
/// Codes of integer GEMMs: a float element's sign and its number on the grid, or an integer in two's
/// complement; scales as E8M0 or as their float format's codes.
///
/// Values below power-of-two scales: the format's codes. Rows begin at whole bytes. The scales are found
/// again: of `rows` numbers of a column, which lie in one block, the least power of two that they fit below.
/// It divides the block's own, so their codes are exact. Values that overflowed to infinity are the largest
/// code below a scale with which it does so again.

/// Numbers of a column of values that share a scale; 0: blocks have one row, so none do.
inline std::int32_t packed_rows(const Quantizer& q, Axis axis) {
  const std::int32_t rows = axis == Axis::column ? q.block.along : q.block.across;
  if (rows == 1 && axis == Axis::row) return 0;
  constexpr std::int32_t usual = 32;
  return rows == 0 || (rows > 2 * usual && rows % usual == 0) ? usual : rows;
}

/// The narrow layout of a wide one, and the other way; else the same.
constexpr Layout narrowed(Layout layout) {
  return layout == Layout::values  ? Layout::narrow_values
         : layout == Layout::codes ? Layout::narrow_codes
                                   : layout;
}
constexpr Layout widened(Layout layout) {
  return layout == Layout::narrow_values  ? Layout::values
         : layout == Layout::narrow_codes ? Layout::codes
                                          : layout;
}
constexpr bool is_narrow(Layout layout) {
  return layout == Layout::narrow_values || layout == Layout::narrow_codes;
}

/// True if there is a narrow layout for it, which is smaller.
inline bool can_be_narrow(const Quantizer& q, Axis axis, Layout layout) {
  const int bits = q.element.bits();
  if (narrowed(layout) == Layout::narrow_codes)
    return bits < 8 && scale_bytes(q) == 1 && (q.scale != ScaleKind::floating || has_nan(q.scale_format));
  // Integers have no code for a negative zero. With more exponents values may be no numbers of the format;
  // with a largest number below 2 the scale of numbers below 2^-126 is not found by their exponent field.
  const bool float_codes =
      !q.element.is_integer() && bits <= 8 && q.element.exponent_bits <= 5 && q.element.max_finite() >= 2;
  return q.scale == ScaleKind::power_of_two && q.scale_bits <= 8 && float_codes && q.offset == Offset::none &&
         q.operand_dtype() == DType::bf16 && packed_rows(q, axis) > 0;
}

/// The layout in which a rounding waits and comes back bit for bit: narrow on a device that narrows, stored
/// on others; its own if that is not smaller.
inline Layout waiting_layout(const Quantizer& q, Axis axis, Layout layout, bool narrows) {
  if (narrows) return can_be_narrow(q, axis, layout) ? narrowed(layout) : layout;
  constexpr double bits_of_byte = 8;
  const bool smaller = q.bits_per_element() < bits_of_byte * double(size_of(q.operand_dtype()));
  return smaller && loss_when_stored(q, layout).empty() ? Layout::stored : layout;
}

/// Bytes of elements, scales and offsets of what is stored or narrow.
inline PackedLayout bytes_when_packed(const Rounded& r) {
  const Quantizer& q = r.by.quantizer;
  if (r.layout == Layout::stored) return packed_layout(q, r.rows(), r.cols(), r.by.axis);
  require(can_be_narrow(q, r.by.axis, r.layout), "{}: '{}' has no narrow layout", name_of(r.site.slot), q);
  const std::int64_t bits = q.element.bits();
  if (r.layout == Layout::narrow_codes) {
    const CodeLayout at = code_layout(r);
    return {0, at.codes().count() / 8 * bits, at.scales().count(), 0};
  }
  const std::int64_t of_block = packed_rows(q, r.by.axis);
  return {0, r.rows() * ((r.cols() + 7) / 8) * bits, (r.rows() + of_block - 1) / of_block * r.cols(), 0};
}

}  // namespace mxtape
