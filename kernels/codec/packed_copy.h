#pragma once
#include <algorithm>

#include "core/error.h"
#include "formats/codec/block_codec.h"
#include "kernels/backend.h"

namespace mxtape {

/// A PackedCopy holds the numbers of a copy in the order in which they lie there, eight codes in as many
/// bytes as a code has bits, lowest bit first. Only copies are packed that come back bit for bit, the signs
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

/// True if a copy of that kind has a packed form, which is smaller.
inline bool can_pack(const Quantizer& q, Axis axis, Layout layout) {
  const int bits = q.element.bits();
  if (layout == Layout::codes)
    return bits < 8 && scale_bytes(q) == 1 && (q.scale != ScaleKind::floating || has_nan(q.scale_format));
  // Integers have no code for a negative zero. With more exponents values may be no numbers of the format;
  // with a largest number below 2 the scale of numbers below 2^-126 is not found by their exponent field.
  const bool float_codes =
      !q.element.is_integer() && bits <= 8 && q.element.exponent_bits <= 5 && q.element.max_finite() >= 2;
  return q.scale == ScaleKind::power_of_two && q.scale_bits <= 8 && float_codes && q.offset == Offset::none &&
         q.operand_dtype() == DType::bf16 && packed_rows(q, axis) > 0;
}
inline bool can_pack(const Rounded& copy) { return can_pack(copy.by.quantizer, copy.by.axis, copy.layout); }

/// Bytes of both parts.
struct PackedCopyBytes {
  std::int64_t codes, scales;
};
inline PackedCopyBytes packed_bytes(const Rounded& copy) {
  const std::int64_t bits = copy.by.quantizer.element.bits();
  if (copy.layout == Layout::codes) return {copy.elements.count() / 8 * bits, copy.scales.count()};
  const std::int64_t rows = copy.rows(), cols = copy.cols(),
                     of_block = packed_rows(copy.by.quantizer, copy.by.axis);
  return {rows * ((cols + 7) / 8) * bits, (rows + of_block - 1) / of_block * cols};
}

/// Memory for what `copy` is packed to.
inline PackedCopy room_for_packed(Backend& backend, const Rounded& copy) {
  const PackedCopyBytes bytes = packed_bytes(copy);
  return {backend.empty({bytes.codes}, DType::u8), backend.empty({bytes.scales}, DType::u8)};
}

/// What call::PackCopy and UnpackCopy want. Throws Error(internal).
inline void check_packed_copy(std::string_view call, const Rounded& copy, const PackedCopy& packed) {
  require(can_pack(copy), "{}: '{}' has no packed form", call, to_text(copy.by.quantizer));
  const PackedCopyBytes want = packed_bytes(copy);
  require(packed.codes.count() == want.codes && packed.scales.count() == want.scales,
          "{}: {} of codes, {} of scales; want {} and {} u8 for '{}'", call, packed.codes.count(),
          packed.scales.count(), want.codes, want.scales, to_text(copy.by.quantizer));
}

}  // namespace mxtape
