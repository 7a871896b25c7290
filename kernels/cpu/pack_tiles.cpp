#include "kernels/cpu/pack_tiles.h"

#include <algorithm>
#include <cmath>

#include "formats/codec/block_codec.h"
#include "kernels/cpu/quantize_tile.h"

namespace mxtape::cpu {

bool TilePacker::takes(const Quantizer& q) {
  return fits_tiles(q) && q.scale == ScaleKind::power_of_two && q.block.across == 1 && q.element.bits() <= 8;
}

TilePacker::TilePacker(const Quantizer& q, Axis axis)
    : quantizer_(q), axis_(axis), rule_(block_rule(q)), code_of_(std::size_t{1} << 16) {
  for (std::uint32_t code = 0; code < 1u << q.element.bits(); ++code)
    code_of_[bits_of(decode(q.element, code)) >> 16] = std::uint8_t(code);
}

bool TilePacker::pack(std::uint8_t* codes, std::uint8_t* scales, const float* x, int rows, std::int64_t cols,
                      const DrawKey& draws) const {
  std::vector<std::uint16_t> elements(std::size_t(rows * cols));
  const int width = tile_extent(cols, most_rows).cols;
  for (std::int64_t c = 0; c < cols; c += width) {
    const int count = int(std::min<std::int64_t>(width, cols - c));
    if (!round(elements.data() + c, scales, x + c, rows, c, count, cols, draws)) return false;
  }
  CodeWriter writer{codes, quantizer_.element.bits()};
  for (const std::uint16_t element : elements) writer.put(code_of_[element]);
  writer.finish();
  return true;
}

bool TilePacker::round(std::uint16_t* elements, std::uint8_t* scales, const float* x, int rows,
                       std::int64_t first_col, int cols, std::int64_t all_cols, const DrawKey& draws) const {
  constexpr int most = tile_elements / 16, whole_vectors = 16;
  alignas(64) std::uint32_t amax[most + whole_vectors];
  alignas(64) float inverse[most + whole_vectors], scale[most + whole_vectors];
  const QuantizeLoops& loops = quantize_loops();
  const int along = quantizer_.block.along;
  const bool by_rows = axis_ == Axis::row;
  const int lines = by_rows ? rows : (rows + along - 1) / along,
            per_line = by_rows ? (cols + along - 1) / along : cols;
  const Tile tile{x, all_cols, rows, cols};
  (by_rows ? loops.amax_along_row : loops.amax_along_column)(amax, tile, along);
  loops.power_of_two_scales({inverse, scale}, amax, lines * per_line, rule_);

  const std::int64_t stride = by_rows ? (all_cols + along - 1) / along : all_cols,
                     first = by_rows ? first_col / along : first_col;
  for (int line = 0; line < lines; ++line)
    for (int i = 0; i < per_line; ++i) {
      const int block = line * per_line + i;
      // The loops give a block of zeros any scale.
      const float s = amax[block] == 0 ? power_of_two_scale(rule_, 0).scale : scale[block];
      if (std::isnan(s)) return false;
      scales[line * stride + first + i] = encode_exponent(s, quantizer_.scale_bits);
    }
  // Elements times 1 are the elements, and all of them are bf16 numbers.
  std::fill_n(scale, lines * per_line + whole_vectors, 1.0f);
  DrawBuffer buffer;
  const TileDraws bits =
      quantizer_.is_stochastic() ? buffer.fill(draws, std::uint64_t(first_col), tile) : TileDraws{};
  (by_rows ? loops.round_along_row : loops.round_along_column)({elements, all_cols}, tile, along,
                                                               {inverse, scale}, rule_, true, bits);
  return true;
}

}  // namespace mxtape::cpu
