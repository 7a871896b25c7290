#include "kernels/cpu/quantize_tile.h"

#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

namespace mxtape::cpu {
namespace {

bool is_tile_length(std::int32_t n, std::int32_t most) {
  return n >= 8 && n <= most && std::has_single_bit(unsigned(n));
}

int over(int a, int b) { return int(ceil_div(a, b)); }

/// The loops' entries, in lines of `per_line`. A block has `right` of them in each of `down` lines.
struct Entries {
  int lines, per_line, down, right;
  int blocks_per_line() const { return over(per_line, right); }
  int blocks() const { return over(lines, down) * blocks_per_line(); }

  /// Leaves the largest of each block, one behind the other.
  void gather(std::uint32_t* amax) const {
    if (down == 1 && right == 1) return;
    std::uint32_t* next = amax;
    for (int top = 0; top < lines; top += down)
      for (int left = 0; left < per_line; left += right) {
        std::uint32_t most = 0;
        for (int line = top; line < std::min(lines, top + down); ++line)
          for (int i = left; i < std::min(per_line, left + right); ++i)
            most = std::max(most, amax[line * per_line + i]);
        *next++ = most;
      }
  }
  /// Gives the entries their blocks' values. From the last on: no value lies behind its block's entries.
  void spread(float* values) const {
    if (down == 1 && right == 1) return;
    for (int line = lines - 1; line >= 0; --line)
      for (int block = blocks_per_line() - 1; block >= 0; --block) {
        const float value = values[line / down * blocks_per_line() + block];
        std::fill_n(values + line * per_line + block * right, std::min(right, per_line - block * right),
                    value);
      }
  }
};

/// The draws of the blocks' first elements, in the order of entries.
void draw_for_scales(std::uint16_t* of_blocks, const CopyDraws& draws, const Tile& t, Axis axis, int along) {
  const QuantizeLoops& loops = quantize_loops();
  std::uint16_t* const bits = TileScratch::own().scale_groups;
  const auto element = [&](int r) {
    return draws.key->first_element + draws.first + std::uint64_t(r) * std::uint64_t(draws.cols);
  };
  if (axis == Axis::column) {
    for (int r = 0; r < t.rows; r += along, of_blocks += t.cols) {
      const int skip = int(element(r) & 7);
      loops.draw(bits, *draws.key, element(r) >> 3, 1, int(ceil_div(skip + t.cols, 128)));
      std::copy_n(bits + skip, t.cols, of_blocks);
    }
    return;
  }
  // Blocks start `along` / 8 groups apart, at the same place of each group; all of them where rows are whole.
  const bool whole = t.cols == draws.cols && t.cols % along == 0;
  const int per_line = int(ceil_div(t.cols, along)), lines = whole ? 1 : t.rows,
            count = whole ? t.rows * per_line : per_line;
  for (int r = 0; r < lines; ++r, of_blocks += count) {
    const int skip = int(element(r) & 7);
    loops.draw(bits, *draws.key, element(r) >> 3, along / 8, int(ceil_div(count, 16)));
    for (int b = 0; b < count; ++b) of_blocks[b] = bits[8 * b + skip];
  }
}

// Of a tile from row r of y on.
void write(TileValues y, int r, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
           bool exact, TileDraws draws) {
  const auto below = [&](auto* p) { return p ? p + r * y.stride : p; };
  quantize_loops().round({below(y.y), y.stride, below(y.wide)}, t, axis, along, scales, rule, exact, draws);
}
void write(TileCodes y, int r, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
           bool exact, TileDraws draws) {
  y.line += r;
  encode_loops().encode(y, t, axis, along, scales, rule, exact, draws);
}
void write(TileGradients g, int r, const Tile& t, Axis axis, int along, TileScales scales,
           const BlockRule& rule, bool, TileDraws) {
  quantize_loops().mask({g.dx + r * g.stride, g.dy + r * g.stride, g.stride}, t, axis, along, scales, rule);
}

TileBlock tile_block(const BlockShape& shape, const Tile& t, Axis axis) {
  const BlockExtent e = block_extent(shape, t.rows, t.cols, axis);
  return {int(e.rows), int(e.cols)};
}

/// x less the midpoints of its blocks.
Tile centred(const Tile& t, Axis axis, int along) {
  TileScratch& scratch = TileScratch::own();
  block_sums_loops().midpoints(scratch.midpoints.scales(), t, tile_block({along, 1}, t, axis));
  quantize_loops().add(scratch.prepared, t.cols, t, axis, along, scratch.midpoints.inverse);
  return {scratch.prepared, t.cols, t.rows, t.cols};
}

}  // namespace

bool has_scale_loops(const Quantizer& q) {
  Quantizer plain = q;
  plain.statistic = Statistic::amax;
  plain.four_over_six = plain.eden = plain.ema = false;
  plain.scale_rounding = ScaleRounding::even;
  if (q.outer == OuterScale::none) plain.outer = OuterScale::tensor;
  const bool random = q.scale_rounding == ScaleRounding::stochastic,
             sums = q.statistic == Statistic::rms || q.four_over_six || q.eden, of_amax = !random && !sums;
  const bool scaled = q.scale == ScaleKind::power_of_two || (q.scale == ScaleKind::f32 && of_amax) ||
                      (q.scale == ScaleKind::floating && q.scale_format.exponent_bits < 8);
  const int most = of_amax ? most_tile_rows : 64;
  const bool whole = of_amax && q.block == BlockShape{0, 0},
             shaped = is_tile_length(q.block.along, most) &&
                      (q.block.across == 1 || (!random && is_tile_length(q.block.across, most)));
  return plain.scale_is_of_amax() && scaled && (whole || shaped) && !(random && q.sr_bits > 16);
}

bool fits_tiles(const Quantizer& q) {
  Quantizer moved = q;
  moved.offset = Offset::none;
  if (q.offset == Offset::midpoint && q.block == BlockShape{loop_length(q.block), 1})
    return fits_tiles(moved);
  // Grids of seven exponent bits reach so far down that values in the scales' safe range are no bf16 numbers.
  return has_scale_loops(q) && q.element.exponent_bits < 7 && !(q.is_stochastic() && block_rule(q).sr_exact);
}

bool find_scales(TileBlocks& blocks, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                 float encode, const CopyDraws& draws, bool for_values) {
  const QuantizeLoops& loops = quantize_loops();
  const BlockSumsLoops& sums = block_sums_loops();
  const bool rows = axis == Axis::row;
  const int along = loop_length(q.block), tall = rows ? 1 : along, wide = rows ? along : 1;  // an entry
  const TileBlock block = tile_block(q.block, t, axis);
  const Entries grid{over(t.rows, tall), over(t.cols, wide), over(block.rows, tall), over(block.cols, wide)};
  const int count = blocks.count = grid.blocks();
  if (q.block.along == 0) {
    blocks.amax[0] = bits_of(draws.amax);
  } else {
    (rows ? loops.amax_along_row : loops.amax_along_column)(blocks.amax, t, along);
    grid.gather(blocks.amax);
  }
  if (q.statistic == Statistic::rms) sums.rms(blocks.amax, t, block, rule);

  const TileScales scales = blocks.scales();
  bool exact = true;
  if (q.scale == ScaleKind::power_of_two) {
    exact = loops.power_of_two_scales(scales, blocks.amax, count, rule);
  } else if (q.scale == ScaleKind::f32) {
    for (int i = 0; i < count; ++i) {
      const BlockScale s = f32_scale(rule, float_of(blocks.amax[i]), rule.element_max);
      blocks.inverse[i] = s.inverse, blocks.scale[i] = s.scale;
    }
  } else {
    std::uint16_t* const of_scales = TileScratch::own().scale_draws;
    const bool eden = q.eden && for_values;
    if (q.scale_rounding == ScaleRounding::stochastic && (eden || !q.eden))
      draw_for_scales(of_scales, draws, t, axis, along);
    exact = loops.floating_scales(scales, blocks.amax, count, rule, encode, of_scales);
    if (q.four_over_six) {
      const TileScales at_four = TileScratch::own().at_four.scales();
      BlockRule rule_of_four = rule;
      rule_of_four.element_max = 4;
      exact &= loops.floating_scales(at_four, blocks.amax, count, rule_of_four, encode, of_scales);
      sums.take_better(scales, at_four, t, block, rule);
    }
    if (eden) exact &= sums.eden(scales, t, block, rule, of_scales);
  }
  grid.spread(blocks.inverse), grid.spread(blocks.scale);
  return exact;
}

template <class Out>
void quantize_tile(const Out& y, const Tile& t, Axis axis, const Quantizer& q, const BlockRule& rule,
                   float encode, const CopyDraws& draws) {
  // Blocks along rows need few rows at a time: 16 KiB stay in the first cache between the loops over them.
  const auto cached = int(std::bit_floor(4096u / unsigned(std::max(t.cols, 1))));
  const int rows = std::max({axis == Axis::row ? 4 : t.rows, q.block.across, cached});
  const bool moves = q.offset == Offset::midpoint;
  const int along = loop_length(q.block);
  for (int r = 0; r < t.rows; r += rows) {
    Tile window{t.x + r * t.stride, t.stride, std::min(rows, t.rows - r), t.cols, t.ahead};
    if (moves) window = centred(window, axis, along);
    CopyDraws own = draws;
    own.first += std::uint64_t(r) * std::uint64_t(draws.cols);
    if (own.elements.bits) own.elements.bits += r * own.elements.stride;
    TileBlocks& blocks = TileScratch::own().blocks;
    const bool exact =
        find_scales(blocks, window, axis, q, rule, encode, own, !std::is_same_v<Out, TileGradients>);
    if (q.ema) {
      float* const scaled = TileScratch::own().prepared;
      const Tile averages =
          draws.averages ? Tile{draws.averages + r * draws.cols, draws.cols, window.rows, t.cols} : window;
      quantize_loops().multiply(scaled, t.cols, averages, axis, along, blocks.inverse);
      own.elements = {nullptr, t.cols, scaled};
    }
    write(y, r, window, axis, along, blocks.scales(), rule, exact, own.elements);
    if constexpr (std::is_same_v<Out, TileValues>)
      if (moves) {
        float* const wide = y.wide + r * y.stride;
        quantize_loops().add(wide, y.stride, {wide, y.stride, window.rows, window.cols}, axis, along,
                             TileScratch::own().midpoints.scale);
      }
  }
}

template void quantize_tile(const TileValues&, const Tile&, Axis, const Quantizer&, const BlockRule&, float,
                            const CopyDraws&);
template void quantize_tile(const TileCodes&, const Tile&, Axis, const Quantizer&, const BlockRule&, float,
                            const CopyDraws&);
template void quantize_tile(const TileGradients&, const Tile&, Axis, const Quantizer&, const BlockRule&,
                            float, const CopyDraws&);

TileScratch& TileScratch::own() {
  thread_local const auto scratch = std::make_unique_for_overwrite<TileScratch>();
  return *scratch;
}

TileDraws TileScratch::draw(const DrawKey& key, std::uint64_t first, const Tile& t) {
  const bool whole = t.cols == t.stride;  // rows lie one behind the other
  const std::int64_t rows = whole ? 1 : t.rows, cols = whole ? std::int64_t{t.rows} * t.cols : t.cols,
                     row_stride = whole ? t.cols : t.cols + per_vector;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint64_t element = key.first_element + first + std::uint64_t(r) * std::uint64_t(t.stride);
    const int skip = int(element & 7);
    std::uint16_t* const row = draws + r * row_stride;
    quantize_loops().draw(row, key, element >> 3, 1, int(ceil_div(skip + cols, per_vector)));
    if (skip) std::memmove(row, row + skip, std::size_t(cols) * sizeof *row);
  }
  return {draws, row_stride};
}

}  // namespace mxtape::cpu
