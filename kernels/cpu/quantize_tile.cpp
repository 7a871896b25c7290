#include "kernels/cpu/quantize_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/loops/four_over_six_loops.h"

namespace mxtape::cpu {
namespace {

bool is_tile_length(std::int32_t n) { return n == 16 || n == 32 || n == 64; }
int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// Blocks of several rows (or columns) share their largest magnitude: entries [lines][per_line], `across`
/// lines together.
void share_between_lines(std::uint32_t* amax, int lines, int per_line, int across) {
  for (int first = 0; first < lines; first += across) {
    const int last = std::min(lines, first + across);
    for (int i = 0; i < per_line; ++i) {
      std::uint32_t most = 0;
      for (int line = first; line < last; ++line) most = std::max(most, amax[line * per_line + i]);
      for (int line = first; line < last; ++line) amax[line * per_line + i] = most;
    }
  }
}
void share_within_line(std::uint32_t* amax, int lines, int per_line, int across) {
  for (int line = 0; line < lines; ++line)
    for (int first = 0; first < per_line; first += across) {
      std::uint32_t* const begin = amax + line * per_line + first;
      std::uint32_t* const end = begin + std::min(across, per_line - first);
      std::fill(begin, end, *std::max_element(begin, end));
    }
}

/// Blocks that err less with their largest element at 4 get that scale. Returns as floating_scales().
bool four_over_six(TileScales scales, std::uint32_t* amax, int count, const Tile& t, Axis axis, int along,
                   const BlockRule& rule, float encode) {
  constexpr int most = tile_elements / 16;
  alignas(64) float inverse[most + 16], scale[most + 16];
  const TileScales at_four{inverse, scale};
  BlockRule rule_of_four = rule;
  rule_of_four.element_max = 4;
  const bool exact = quantize_loops().floating_scales(at_four, amax, count, rule_of_four, encode);
  const FourOverSixLoops& loops = four_over_six_loops();
  (axis == Axis::row ? loops.take_better_along_row : loops.take_better_along_column)(scales, at_four, t,
                                                                                     along, rule);
  return exact;
}

void write(TileValues y, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
           bool exact, TileDraws draws) {
  const QuantizeLoops& loops = quantize_loops();
  (axis == Axis::row ? loops.round_along_row : loops.round_along_column)(y, t, along, scales, rule, exact,
                                                                         draws);
}
void write(const TileCodes& y, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
           bool exact, TileDraws draws) {
  const EncodeLoops& loops = encode_loops();
  (axis == Axis::row ? loops.along_row : loops.along_column)(y, t, along, scales, rule, exact, draws);
}

/// What is written of a tile from its row r on.
TileValues from_row(TileValues y, int r) { return {y.y + r * y.stride, y.stride}; }
TileCodes from_row(TileCodes y, int r) {
  y.line += r;
  return y;
}

template <class Out>
void quantize_window(const Out& y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                     float encode, TileDraws draws) {
  constexpr int most = tile_elements / 16;
  alignas(64) std::uint32_t amax[most + 16];
  alignas(64) float inverse[most + 16], scale[most + 16];
  const QuantizeLoops& loops = quantize_loops();
  const int along = q.block.along, across = q.block.across;
  const bool rows = axis == Axis::row;
  const int lines = rows ? t.rows : ceil_div(t.rows, along),
            per_line = rows ? ceil_div(t.cols, along) : t.cols;
  (rows ? loops.amax_along_row : loops.amax_along_column)(amax, t, along);
  if (across > 1) (rows ? share_between_lines : share_within_line)(amax, lines, per_line, across);

  const TileScales scales{inverse, scale};
  const int count = lines * per_line;
  bool exact = q.scale == ScaleKind::floating ? loops.floating_scales(scales, amax, count, rule, encode)
                                              : loops.power_of_two_scales(scales, amax, count, rule);
  if (q.four_over_six) exact &= four_over_six(scales, amax, count, t, axis, along, rule, encode);
  write(y, t, axis, along, scales, rule, exact, draws);
}

template <class Out>
void quantize_windows(const Out& y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                      float encode, TileDraws draws) {
  if (axis == Axis::column) return quantize_window(y, t, axis, q, rule, encode, draws);
  // Blocks along rows need few rows at a time: these stay in the first cache between the two loops over them.
  const int rows = std::max(4, q.block.across);
  for (int r = 0; r < t.rows; r += rows) {
    const Tile window{t.x + r * t.stride, t.stride, std::min(rows, t.rows - r), t.cols};
    quantize_window(from_row(y, r), window, axis, q, rule, encode,
                    {draws.bits ? draws.bits + r * draws.stride : nullptr, draws.stride});
  }
}

/// By formula from amax, or the better of two such scales for blocks whose elements lie in one line.
bool has_scale_loops(const Quantizer& q) {
  Quantizer plain = q;
  plain.four_over_six = false;
  const bool one_of_two = q.scale == ScaleKind::floating && q.block.across == 1;
  return plain.scale_is_of_amax() && (!q.four_over_six || one_of_two);
}

}  // namespace

bool fits_tiles(const Quantizer& q) {
  const bool scaled = q.scale == ScaleKind::power_of_two || q.scale == ScaleKind::floating;
  // Grids of seven exponent bits reach so far down that values in the scales' safe range are no bf16 numbers.
  const bool rounded = q.element.exponent_bits < 7 && !(q.is_stochastic() && block_rule(q).sr_exact);
  return scaled && rounded && has_scale_loops(q) && q.operand_dtype() == DType::bf16 &&
         is_tile_length(q.block.along) && (q.block.across == 1 || is_tile_length(q.block.across));
}

void quantize_tile(TileValues y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                   float encode, TileDraws draws) {
  quantize_windows(y, t, axis, q, rule, encode, draws);
}

void quantize_tile(TileCodes y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                   float encode, TileDraws draws) {
  quantize_windows(y, t, axis, q, rule, encode, draws);
}

TileDraws DrawBuffer::fill(const DrawKey& key, std::uint64_t first, const Tile& t) {
  const std::int64_t row_stride = t.cols + per_vector;
  for (int r = 0; r < t.rows; ++r) {
    const std::uint64_t element = key.first_element + first + std::uint64_t(r) * std::uint64_t(t.stride);
    const int skip = int(element & 7);
    std::uint16_t* const row = bits_ + r * row_stride;
    quantize_loops().draw(row, key, element >> 3, ceil_div(skip + t.cols, per_vector));
    if (skip) std::memmove(row, row + skip, std::size_t(t.cols) * sizeof *row);
  }
  return {bits_, row_stride};
}

}  // namespace mxtape::cpu
