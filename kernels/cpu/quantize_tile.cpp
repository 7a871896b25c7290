#include "kernels/cpu/quantize_tile.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/loops/block_sums_loops.h"

namespace mxtape::cpu {
namespace {

bool is_tile_length(std::int32_t n) { return n == 8 || n == 16 || n == 32 || n == 64; }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

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

/// Those of the blocks' first elements, in the order of entries.
void take_first(std::uint16_t* of_blocks, const Tile& t, Axis axis, int along, TileDraws draws) {
  const int down = axis == Axis::row ? 1 : along, right = axis == Axis::row ? along : 1;
  for (int r = 0; r < t.rows; r += down)
    for (int c = 0; c < t.cols; c += right) *of_blocks++ = draws.bits[r * draws.stride + c];
}

void write(TileValues y, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
           bool exact, TileDraws draws) {
  quantize_loops().round(y, t, axis, along, scales, rule, exact, draws);
}
void write(const TileCodes& y, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
           bool exact, TileDraws draws) {
  encode_loops().encode(y, t, axis, along, scales, rule, exact, draws);
}
void write(const TileGradients& g, const Tile& t, Axis axis, int along, TileScales scales,
           const BlockRule& rule, bool, TileDraws) {
  straight_through_loops().mask(g, t, axis, along, scales, rule);
}

/// What is written of a tile from its row r on, rows of x `stride` apart.
TileValues from_row(TileValues y, int r, std::int64_t) { return {y.y + r * y.stride, y.stride}; }
TileCodes from_row(TileCodes y, int r, std::int64_t) {
  y.line += r;
  return y;
}
TileGradients from_row(TileGradients g, int r, std::int64_t stride) {
  return {g.dx + r * stride, g.dy + r * stride};
}

template <class Out>
void quantize_windows(const Out& y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                      float encode, TileDraws draws) {
  // Blocks along rows need few rows at a time: these stay in the first cache between the loops over them.
  const int rows = axis == Axis::row ? std::max(4, q.block.across) : std::max(t.rows, 1);
  for (int r = 0; r < t.rows; r += rows) {
    const Tile window{t.x + r * t.stride, t.stride, std::min(rows, t.rows - r), t.cols};
    const TileDraws own{draws.bits ? draws.bits + r * draws.stride : nullptr, draws.stride};
    TileBlocks blocks;
    const bool exact = find_scales(blocks, window, axis, q, rule, encode, own);
    write(from_row(y, r, t.stride), window, axis, q.block.along, blocks.scales(), rule, exact, own);
  }
}

}  // namespace

bool has_scale_loops(const Quantizer& q) {
  Quantizer plain = q;
  plain.statistic = Statistic::amax;
  plain.four_over_six = plain.eden = false;
  plain.scale_rounding = ScaleRounding::even;
  if (q.outer == OuterScale::none) plain.outer = OuterScale::tensor;
  const bool scaled = q.scale == ScaleKind::power_of_two ||
                      (q.scale == ScaleKind::floating && q.scale_format.exponent_bits < 8);
  const bool random = q.scale_rounding == ScaleRounding::stochastic,
             sums = q.statistic == Statistic::rms || q.four_over_six || q.eden;
  const bool shaped = q.block.across == 1 || (is_tile_length(q.block.across) && !random && !sums);
  return plain.scale_is_of_amax() && scaled && shaped && is_tile_length(q.block.along) &&
         !(random && q.sr_bits > 16);
}

bool fits_tiles(const Quantizer& q) {
  // Grids of seven exponent bits reach so far down that values in the scales' safe range are no bf16 numbers.
  const bool rounded = q.element.exponent_bits < 7 && !(q.is_stochastic() && block_rule(q).sr_exact);
  return has_scale_loops(q) && rounded && q.operand_dtype() == DType::bf16;
}

float encode_of(const Quantizer& q, const BlockRule& rule, const float* x, std::int64_t count) {
  if (!q.has_tensor_scale()) return 1;
  constexpr std::int64_t grain = 1 << 15;
  std::vector<std::uint32_t> amax(std::size_t(ceil_div(count, grain)));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    amax[std::size_t(begin / grain)] = quantize_loops().amax(x + begin, end - begin);
  });
  const std::uint32_t most = amax.empty() ? 0 : *std::max_element(amax.begin(), amax.end());
  return tensor_encode_scale(rule, float_of(most));
}

bool find_scales(TileBlocks& blocks, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                 float encode, TileDraws draws) {
  const QuantizeLoops& loops = quantize_loops();
  const BlockSumsLoops& sums = block_sums_loops();
  const int along = q.block.along, across = q.block.across;
  const bool rows = axis == Axis::row;
  const int lines = int(rows ? t.rows : ceil_div(t.rows, along)),
            per_line = int(rows ? ceil_div(t.cols, along) : t.cols);
  blocks.count = lines * per_line;
  (rows ? loops.amax_along_row : loops.amax_along_column)(blocks.amax, t, along);
  if (across > 1) (rows ? share_between_lines : share_within_line)(blocks.amax, lines, per_line, across);
  if (q.statistic == Statistic::rms) sums.rms(blocks.amax, t, axis, along, rule);

  const TileScales scales = blocks.scales();
  if (q.scale == ScaleKind::power_of_two)
    return loops.power_of_two_scales(scales, blocks.amax, blocks.count, rule);
  alignas(64) std::uint16_t of_scales[TileBlocks::room];
  if (q.scale_rounding == ScaleRounding::stochastic) take_first(of_scales, t, axis, along, draws);
  bool exact = loops.floating_scales(scales, blocks.amax, blocks.count, rule, encode, of_scales);
  if (q.four_over_six) {
    TileBlocks at_four;
    BlockRule rule_of_four = rule;
    rule_of_four.element_max = 4;
    exact &=
        loops.floating_scales(at_four.scales(), blocks.amax, blocks.count, rule_of_four, encode, of_scales);
    sums.take_better(scales, at_four.scales(), t, axis, along, rule);
  }
  if (q.eden) exact &= sums.eden(scales, t, axis, along, rule, of_scales);
  return exact;
}

void quantize_tile(TileValues y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                   float encode, TileDraws draws) {
  quantize_windows(y, t, axis, q, rule, encode, draws);
}
void quantize_tile(TileCodes y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                   float encode, TileDraws draws) {
  quantize_windows(y, t, axis, q, rule, encode, draws);
}
void quantize_tile(TileGradients g, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                   float encode, TileDraws draws) {
  quantize_windows(g, t, axis, q, rule, encode, draws);
}

TileDraws DrawBuffer::fill(const DrawKey& key, std::uint64_t first, const Tile& t) {
  const std::int64_t row_stride = t.cols + per_vector;
  for (int r = 0; r < t.rows; ++r) {
    const std::uint64_t element = key.first_element + first + std::uint64_t(r) * std::uint64_t(t.stride);
    const int skip = int(element & 7);
    std::uint16_t* const row = bits_ + r * row_stride;
    quantize_loops().draw(row, key, element >> 3, int(ceil_div(skip + t.cols, per_vector)));
    if (skip) std::memmove(row, row + skip, std::size_t(t.cols) * sizeof *row);
  }
  return {bits_, row_stride};
}

}  // namespace mxtape::cpu
