#pragma once
#include <algorithm>
#include <functional>
#include <optional>

#include "formats/quantize.h"
#include "formats/scale_of_block.h"

namespace mxtape {

/// Rows [row, row_end) and columns [col, col_end) of a matrix.
struct BlockRange {
  std::int64_t row, row_end, col, col_end;
};

/// The extents of q's blocks in rows and columns; 0 resolved to the whole extent.
struct BlockExtent {
  std::int64_t rows, cols;
};
inline BlockExtent block_extent(const BlockShape& shape, std::int64_t rows, std::int64_t cols, Axis axis) {
  const std::int64_t down = axis == Axis::column ? shape.along : shape.across;
  const std::int64_t right = axis == Axis::column ? shape.across : shape.along;
  return {down > 0 ? down : std::max<std::int64_t>(rows, 1),
          right > 0 ? right : std::max<std::int64_t>(cols, 1)};
}

/// The extents of the groups of blocks that share an outer scale.
inline BlockExtent group_extent(const Quantizer& q, std::int64_t rows, std::int64_t cols, Axis axis) {
  return block_extent({q.outer_along, q.block.across}, rows, cols, axis);
}

/// Calls visit(BlockRange) for the blocks in row-major order of the block grid.
template <class Visit>
void for_each_block(std::int64_t rows, std::int64_t cols, BlockExtent extent, Visit&& visit) {
  for (std::int64_t r = 0; r < rows; r += extent.rows)
    for (std::int64_t c = 0; c < cols; c += extent.cols)
      visit(BlockRange{r, std::min(rows, r + extent.rows), c, std::min(cols, c + extent.cols)});
}
/// Calls visit(i) for the row-major indices of a block's elements, in that order.
template <class Visit>
void for_each_element(const BlockRange& b, std::int64_t cols, Visit&& visit) {
  for (std::int64_t r = b.row; r < b.row_end; ++r)
    for (std::int64_t c = b.col; c < b.col_end; ++c) visit(r * cols + c);
}

/// A block of x, as scale_of_block() takes it.
struct BlockOfMatrix {
  const float* x;
  std::int64_t cols;
  BlockRange range;
  float first() const { return x[range.row * cols + range.col]; }
  std::int64_t count() const { return (range.row_end - range.row) * (range.col_end - range.col); }
  template <class T, class Of, class Combine>
  T fold(T all, const Of& of, const Combine& combine) const {
    for_each_element(range, cols, [&](std::int64_t i) { all = combine(all, of(x[i])); });
    return all;
  }
  template <class Of>
  float sum(const Of& of) const {
    return fold(0.0f, of, std::plus());
  }
};

/// s_enc of the group of blocks around `block`, of extents `group`: outer=axis and N.
inline float encode_of_group(const float* x, std::int64_t rows, std::int64_t cols, const BlockRule& rule,
                             BlockExtent group, const BlockRange& block) {
  const std::int64_t row = block.row / group.rows * group.rows, col = block.col / group.cols * group.cols;
  const BlockRange range{row, std::min(rows, row + group.rows), col, std::min(cols, col + group.cols)};
  return tensor_encode_scale(rule, largest_magnitude(BlockOfMatrix{x, cols, range}, 0));
}

/// Rounds one block of x: calls sink.block(block, scale), then sink.element(i, rounded, scale) for each
/// element, whose value is value_of(scale, rounded). draw(i) gives the random bits of element i, or its
/// average's. `encode`: s_enc of its tensor or group, else 1.
template <class Draw, class Sink>
void quantize_block(const float* x, std::int64_t cols, const BlockRule& rule, const BlockRange& block,
                    float encode, const Draw& draw, Sink& sink) {
  const BlockScale s = scale_of_block(rule, encode, BlockOfMatrix{x, cols, block},
                                      [&] { return draw(block.row * cols + block.col); });
  sink.block(block, s);
  for_each_element(block, cols, [&](std::int64_t i) {
    const std::uint32_t bits = rule.rounding == Rounding::stochastic || rule.ema ? draw(i) : 0;
    sink.element(i, round_in_block(rule, s, x[i], bits), s);
  });
}

/// Rounds x [rows, cols] by q, block after block. A plain cast is one block with scale 1. Returns the
/// multiplier of a GEMM with this operand. `tensor_amax`: where x is a part of the tensor whose scale counts.
template <class Draw, class Sink>
float quantize_blocks(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
                      const Draw& draw, Sink& sink, std::optional<float> tensor_amax = {}) {
  const std::string contradiction = q.contradiction();
  require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", to_text(q), contradiction);
  const BlockRule rule = block_rule(q);
  const BlockOfMatrix all{x, cols, {0, rows, 0, cols}};
  const float encode = q.has_tensor_scale()
                           ? tensor_encode_scale(rule, tensor_amax ? *tensor_amax : largest_magnitude(all, 0))
                           : 1;
  const BlockShape shape = q.scale != ScaleKind::none ? q.block : BlockShape{0, 0};
  const BlockExtent group = group_extent(q, rows, cols, axis);
  for_each_block(rows, cols, block_extent(shape, rows, cols, axis), [&](const BlockRange& block) {
    const float own = rule.group_scale ? encode_of_group(x, rows, cols, rule, group, block) : encode;
    quantize_block(x, cols, rule, block, own, draw, sink);
  });
  return 1 / encode / q.alpha;
}

}  // namespace mxtape
