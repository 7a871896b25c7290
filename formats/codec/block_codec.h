#pragma once
#include "formats/codec/codec.h"
#include "formats/quantize_blocks.h"

namespace mxtape {

/// How many blocks a packed matrix has (none: a plain cast), and how many bytes its parts.
struct PackedLayout {
  std::int64_t blocks, codes, scales, offsets;
};
/// Bytes of a block's scale: its code, or an f32's four.
MXT_HD constexpr int scale_bytes(const Quantizer& q) {
  if (q.scale == ScaleKind::none) return 0;
  if (q.scale == ScaleKind::f32) return 4;
  if (q.scale == ScaleKind::power_of_two) return q.scale_bits > 8 ? 2 : 1;
  return q.scale_format.bits() - (q.scale_sign ? 0 : 1) > 8 ? 2 : 1;
}
inline PackedLayout packed_layout(const Quantizer& q, std::int64_t rows, std::int64_t cols, Axis axis) {
  const BlockExtent e = block_extent(q.block, rows, cols, axis);
  const std::int64_t blocks =
      q.scale == ScaleKind::none ? 0 : ((rows + e.rows - 1) / e.rows) * ((cols + e.cols - 1) / e.cols);
  return {blocks, (rows * cols * q.element.bits() + 7) / 8, blocks * scale_bytes(q),
          q.offset != Offset::none ? 2 * blocks : 0};
}

/// Codes of power-of-two scales of `bits` exponent bits; all ones is NaN.
MXT_HD constexpr std::uint32_t exponent_code(int e, int bits) {
  return std::uint32_t(e + (1 << (bits - 1)) - 1);
}

/// The scale of block `index` to and from its bytes among all blocks', lowest byte first.
MXT_HD constexpr void store_scale(std::uint8_t* scales, std::int64_t index, const Quantizer& q,
                                  const BlockScale& s) {
  const float scale = s.scale;
  const bool nan = scale != scale;
  const std::uint32_t bits = q.scale == ScaleKind::power_of_two
                                 ? nan ? low_bits(q.scale_bits) : exponent_code(exponent_of(s), q.scale_bits)
                             : q.scale == ScaleKind::floating
                                 // What sign arithmetic gives a NaN differs among machines.
                                 // A scale without a sign is positive: the bit where it would be is 0.
                                 ? encode(q.scale_format, nan ? float_of(0x7fc00000u) : scale)
                                 : bits_of(scale);
  for (int k = 0; k < scale_bytes(q); ++k) scales[index * scale_bytes(q) + k] = std::uint8_t(bits >> (8 * k));
}
MXT_HD constexpr BlockScale load_scale(const std::uint8_t* scales, std::int64_t index, const Quantizer& q) {
  std::uint32_t bits = 0;
  for (int k = 0; k < scale_bytes(q); ++k)
    bits |= std::uint32_t(scales[index * scale_bytes(q) + k]) << (8 * k);
  if (q.scale == ScaleKind::none) return {0, 1};
  if (q.scale == ScaleKind::f32) return {0, float_of(bits)};
  if (q.scale == ScaleKind::floating) return {0, decode(q.scale_format, bits)};
  if (bits == low_bits(q.scale_bits)) return nan_block();
  return power_of_two_block(int(bits) - int(exponent_code(0, q.scale_bits)), 1);
}

/// What a block's two bytes say: its midpoint as FP16 bits, or its zero point in steps, in two's complement.
/// (Constants of a namespace cannot be referred to in kernels: hence copies.)
MXT_HD constexpr std::uint16_t encode_offset(const Quantizer& q, const BlockScale& s) {
  constexpr ElementFormat half = f16;
  if (q.offset == Offset::midpoint) return std::uint16_t(encode(half, s.offset));
  return std::uint16_t(std::int16_t(s.zero * power_of_two(-q.element.unit_exponent)));
}
MXT_HD constexpr void decode_offset(BlockScale& s, const Quantizer& q, std::uint16_t bits) {
  constexpr ElementFormat half = f16;
  if (q.offset == Offset::midpoint)
    s.offset = decode(half, bits);
  else
    s.zero = float(std::int16_t(bits)) * power_of_two(q.element.unit_exponent);
}

/// The code of an element that x was rounded to: zero in a block that is NaN. A NaN has the sign of x, as
/// what arithmetic gives it differs among machines.
MXT_HD constexpr std::uint32_t code_of(const Quantizer& q, const BlockScale& s, float rounded, float x) {
  if (s.scale != s.scale) return 0;
  const bool nan = rounded != rounded;
  return encode(q.element, nan ? float_of((bits_of(x) & 0x80000000u) | 0x7fc00000u) : rounded - s.zero);
}
/// What an element of a block is worth by its code, or by what the code stands for.
MXT_HD constexpr float value_of_coded(const BlockScale& s, float coded) {
  return value_of(s, s.zero != 0 ? coded + s.zero : coded);  // x + 0 would lose the sign of a zero
}
MXT_HD constexpr float value_of_code(const Quantizer& q, const BlockScale& s, std::uint32_t code) {
  return value_of_coded(s, decode(q.element, code));
}
/// True if the element is worth NaN and neither it nor its scale has a code for that.
MXT_HD constexpr bool lacks_a_code(const Quantizer& q, float scale, float rounded) {
  if (scale != scale) return q.scale == ScaleKind::floating && !has_nan(q.scale_format);
  return rounded != rounded && !has_nan(q.element);
}

}  // namespace mxtape
