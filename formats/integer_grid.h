#pragma once
#include <optional>

#include "formats/quantizer.h"

namespace mxtape {

/// An element format as integers: its numbers are k * 2^unit_exponent with |k| <= largest.
struct IntegerGrid {
  int unit_exponent;
  int largest;
  constexpr bool operator==(const IntegerGrid&) const = default;
};

/// Codes are signed bytes. -128 is none: then products of pairs fit in 16 bits.
inline constexpr int largest_code = 127;

/// The integers of a format, if all its finite numbers are such: the multiples of its smallest number, up to
/// 127 of them. E2M1 is k / 2 with |k| <= 12, E3M0 k / 4 up to 64, E2M3 k / 8 up to 60, INT8 k / 64 up to
/// 127.
constexpr std::optional<IntegerGrid> integer_grid(const ElementFormat& f) {
  const Grid grid = grid_of(f);
  const float top = -grid.lowest > grid.highest ? -grid.lowest : grid.highest;
  if (top > float(largest_code) * f.min_positive()) return {};
  return IntegerGrid{f.min_exponent() - f.mantissa_bits, int(top / f.min_positive())};
}

/// Codes of a line are stored, and their products summed, in groups of so many.
inline constexpr int code_group = 16;
/// The longest block whose sum of products of codes f32 holds exactly.
inline constexpr int longest_code_block = (1 << 24) / (largest_code * largest_code) / code_group * code_group;

/// True if an operand rounded by q can be kept as integer codes and one f32 scale a block: integer elements,
/// power-of-two scales of at most 8 bits or floating ones, no offset, whole groups of codes in a block.
constexpr bool has_integer_codes(const Quantizer& q) {
  const bool scaled = q.scale == ScaleKind::power_of_two || q.scale == ScaleKind::floating;
  const bool blocks =
      q.block.along > 0 && q.block.along % code_group == 0 && q.block.along <= longest_code_block;
  return scaled && blocks && q.scale_bits <= 8 && q.offset == Offset::none &&
         q.operand_dtype() == DType::bf16 && integer_grid(q.element).has_value();
}

static_assert(integer_grid(e2m1) == IntegerGrid{-1, 12} && integer_grid(e3m0) == IntegerGrid{-2, 64});
static_assert(integer_grid(e2m3) == IntegerGrid{-3, 60} && integer_grid(int8) == IntegerGrid{-6, 127});
static_assert(!integer_grid(e3m2) && !integer_grid(e4m3) && !integer_grid(e5m2) && !integer_grid(f32));

}  // namespace mxtape
