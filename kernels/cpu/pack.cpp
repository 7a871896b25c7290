#include "kernels/cpu/stored.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/cpu/quantize_tile.h"

namespace mxtape::cpu {

// For storage and transport, not inside a pass. All threads where strips of rows can be packed each for
// itself: by vector loops, or by formats/codec/mx_tensor.h, the definition.
namespace {

constexpr std::int64_t strip_rows = 32;  // codes of any width fill whole bytes
constexpr std::int64_t none = -1;

/// Packs strips of a matrix by the vector loops of quantize.
class TilePacker {
 public:
  TilePacker(const Quantizer& q, Axis axis)
      : quantizer_(q), axis_(axis), rule_(block_rule(q)), code_of_(std::size_t{1} << 16) {
    for (std::uint32_t code = 0; code < 1u << q.element.bits(); ++code)
      code_of_[bits_of(decode(q.element, code)) >> 16] = std::uint8_t(code);
  }

  /// The bytes of formats/codec/mx_tensor.h's pack() of x [rows, cols], whose first element `draws` counts as
  /// its first. False if a block is not finite: that is left to the definition.
  bool pack(std::uint8_t* codes, std::uint8_t* scales, const float* x, int rows, std::int64_t cols,
            const DrawKey& draws) const {
    std::vector<std::uint16_t> elements(std::size_t(rows * cols));
    const int width = tile_extent(cols, strip_rows).cols;
    for (std::int64_t c = 0; c < cols; c += width) {
      const Tile tile{x + c, cols, rows, int(std::min<std::int64_t>(width, cols - c))};
      if (!round(elements.data() + c, scales, tile, c, draws)) return false;
    }
    CodeWriter writer{codes, quantizer_.element.bits()};
    for (const std::uint16_t element : elements) writer.put(code_of_[element]);
    writer.finish();
    return true;
  }

 private:
  bool round(std::uint16_t* elements, std::uint8_t* scales, const Tile& tile, std::int64_t first_col,
             const DrawKey& draws) const {
    const int along = quantizer_.block.along;
    const std::int64_t per_block = axis_ == Axis::row ? along : 1, first = first_col / per_block,
                       per_line = ceil_div(tile.cols, per_block), stride = ceil_div(tile.stride, per_block);
    TileScratch& scratch = TileScratch::own();
    TileBlocks& blocks = scratch.blocks;
    find_scales(blocks, tile, axis_, quantizer_, rule_, 1);
    for (int block = 0; block < blocks.count; ++block) {
      // The loops give a block of zeros any scale.
      const float s = blocks.amax[block] == 0 ? power_of_two_scale(rule_, 0).scale : blocks.scale[block];
      if (std::isnan(s) || std::isinf(blocks.inverse[block])) return false;
      scales[block / per_line * stride + first + block % per_line] =
          encode_exponent(s, quantizer_.scale_bits);
    }
    // Elements times 1 are the elements, and all of them are bf16 numbers.
    std::fill(std::begin(blocks.scale), std::end(blocks.scale), 1.0f);
    const TileDraws bits =
        quantizer_.is_stochastic() ? scratch.draw(draws, std::uint64_t(first_col), tile) : TileDraws{};
    quantize_loops().round({elements, tile.stride}, tile, axis_, along, blocks.scales(), rule_, true, bits);
    return true;
  }

  Quantizer quantizer_;
  Axis axis_;
  BlockRule rule_;
  std::vector<std::uint8_t> code_of_;  // by the upper half of an element's bits as f32
};

bool has_strips(const Rounded& y) {
  const Quantizer& q = y.by.quantizer;
  const BlockExtent e = block_extent(q.block, y.rows(), y.cols(), y.by.axis);
  return !q.has_tensor_scale() &&
         (q.scale == ScaleKind::none || strip_rows % std::max<std::int64_t>(e.rows, 1) == 0);
}

/// Rows [first, first + rows) of y; returns its element without a code.
std::int64_t pack_rows(const Rounded& y, const TilePacker* packer, const float* x, std::int64_t first,
                       std::int64_t rows) {
  const Quantizer& q = y.by.quantizer;
  const std::int64_t cols = y.cols();
  DrawKey key = y.by.draws;
  key.first_element += std::uint64_t(first * cols);
  const PackedLayout before = packed_layout(q, first, cols, y.by.axis);
  if (packer &&
      packer->pack(y.elements.data<std::uint8_t>() + before.codes,
                   y.scales.data<std::uint8_t>() + before.scales, x + first * cols, int(rows), cols, key)) {
    if (y.multiplier && first == 0) *y.multiplier.data() = 1 / q.alpha;
    return none;
  }
  std::int64_t first_uncoded = none;
  const MxTensor t = mxtape::pack(x + first * cols, rows, cols, y.by.axis, q, key, first_uncoded);
  const auto put = [](const Tensor& to, std::int64_t at, const auto& numbers) {
    if (to) std::ranges::copy(std::as_bytes(std::span(numbers)), static_cast<std::byte*>(to.raw()) + at);
  };
  put(y.elements, before.codes, t.codes);
  put(y.scales, before.scales, t.scales);
  put(y.offsets, before.offsets, t.offsets);
  if (y.multiplier && first == 0) *y.multiplier.data() = t.multiplier;
  return first_uncoded == none ? none : first * cols + first_uncoded;
}

}  // namespace

bool packs_tiles(const Quantizer& q) {
  return fits_tiles(q) && q.scale == ScaleKind::power_of_two && q.element.bits() <= 8 &&
         q.offset == Offset::none && !q.ema && q.block == BlockShape{loop_length(q.block), 1};
}

std::int64_t pack(const Rounded& y, const float* x) {
  const std::int64_t all = y.rows(), rows = has_strips(y) ? strip_rows : std::max<std::int64_t>(all, 1);
  std::optional<TilePacker> packer;
  if (has_strips(y) && packs_tiles(y.by.quantizer)) packer.emplace(y.by.quantizer, y.by.axis);
  std::vector<std::int64_t> uncoded(std::size_t(std::max<std::int64_t>((all + rows - 1) / rows, 1)), none);
  parallel_for(std::ssize(uncoded), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t strip = begin; strip < end; ++strip)
      uncoded[std::size_t(strip)] =
          pack_rows(y, packer ? &*packer : nullptr, x, strip * rows, std::min(rows, all - strip * rows));
  });
  const auto first = std::find_if(uncoded.begin(), uncoded.end(), [](std::int64_t i) { return i != none; });
  return first == uncoded.end() ? none : *first;
}

}  // namespace mxtape::cpu
