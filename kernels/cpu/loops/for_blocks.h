#pragma once
// For *_loops.cpp only: how a loop goes over the blocks of a tile.
#include "kernels/cpu/loops/choose_rounding.h"
#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu::MXT_TIER {

// --- An element a lane.

/// Of the blocks of sixteen elements in a row, from the first one's entry on.
template <int along>
MXT_LANES f32x16 of_blocks(const float* entry) {
  if constexpr (along >= lanes) return all(*entry);
  return select(lane_numbers() < along, all(entry[0]), all(entry[1]));
}

template <int along, class Body>
MXT_LANES void for_elements_along_row(const Tile& t, TileScales s, const Body& body) {
  constexpr int step = along < lanes ? lanes : along;
  for (int r = 0; r < t.rows; ++r) {
    int c = 0;
    for (; c + step <= t.cols; c += step, s.inverse += step / along, s.scale += step / along) {
      const f32x16 inverse = of_blocks<along>(s.inverse), scale = of_blocks<along>(s.scale);
      for (int i = c; i < c + step; i += lanes) body(r, i, Full{}, inverse, scale);
    }
    if (c == t.cols) continue;
    const f32x16 inverse = of_blocks<along>(s.inverse), scale = of_blocks<along>(s.scale);
    for_lanes(t.cols - c, [&](std::int64_t i, auto part) { body(r, c + i, part, inverse, scale); });
    const int blocks = (t.cols - c + along - 1) / along;
    s.inverse += blocks, s.scale += blocks;
  }
}

template <class Body>
MXT_LANES void for_elements_along_column(const Tile& t, int along, TileScales s, const Body& body) {
  for (int top = 0; top < t.rows; top += along, s.inverse += t.cols, s.scale += t.cols)
    for (int r = top; r < t.rows && r < top + along; ++r)
      for_lanes(t.cols, [&](std::int64_t c, auto part) {
        body(r, c, part, part.load(s.inverse + c), part.load(s.scale + c));
      });
}

/// body(r, c, Full or First, inverse, scale): the elements of row r from column c on, and what their blocks
/// are rounded with.
template <class Body>
MXT_LANES void for_elements(const Tile& t, Axis axis, int along, TileScales s, const Body& body) {
  if (axis == Axis::column) return for_elements_along_column(t, along, s, body);
  with_length<8>(along, [&](auto length) { for_elements_along_row<length()>(t, s, body); });
}

// --- A block a lane.

constexpr int longest_block = 64;

/// Entries [first, first + count), blocks of so many elements.
struct SixteenBlocks {
  int first, count;
  i32x16 lengths;
};
/// The blocks that have one more element: as Full, for those of different lengths.
struct Those {
  i32x16 there;
  [[gnu::always_inline]] f32x16 keep(const f32x16& v, const f32x16& other) const {
    return select(there, v, other);
  }
};

/// Elements i of sixteen rows come to lie side by side, from y + 16 i on.
MXT_LANES void turn_rows(float* y, const float* const (&rows)[lanes], int length) {
  for (int i = 0; i < length; i += 4)
    for (int first = 0; first < lanes; first += 4) {
      i32x4 four[4];
      for (int k = 0; k < 4; ++k) std::memcpy(&four[k], rows[first + k] + i, sizeof four[k]);
      transpose(four);
      for (int k = 0; k < 4; ++k) store_as(y + (i + k) * lanes + first, four[k]);
    }
}

/// Blocks of one row or several.
template <class Run>
MXT_LANES void for_blocks_along_row(const Tile& t, TileBlock block, const Run& run) {
  const int down = block.rows, right = block.cols;
  const int count = (t.rows + down - 1) / down * ((t.cols + right - 1) / right);
  // All blocks: what is asked of each one's length would cost as much as its sum.
  const bool whole = t.rows % down == 0 && t.cols % right == 0;
  // All of it is written before the first vector is read: one whose lanes were just written would wait.
  alignas(64) float turned[longest_block * lanes];  // [element][block]
  float padded[lanes][longest_block];
  for (int first = 0, row = 0, col = 0; first < count; first += lanes) {
    const float* blocks[lanes];
    std::int32_t rows[lanes], cols[lanes];
    const int here = count - first < lanes ? count - first : lanes;
    for (int lane = 0; lane < here; ++lane) {
      blocks[lane] = t.x + row * t.stride + col;
      rows[lane] = t.rows - row < down ? t.rows - row : down;
      cols[lane] = t.cols - col < right ? t.cols - col : right;
      if ((col += right) >= t.cols) col = 0, row += down;
    }
    for (int lane = here; lane < lanes; ++lane)
      blocks[lane] = blocks[here - 1], rows[lane] = rows[here - 1], cols[lane] = cols[here - 1];
    const i32x16 heights = whole ? all_ints(down) : load_as<i32x16>(rows),
                 widths = whole ? all_ints(right) : load_as<i32x16>(cols);
    run(
        SixteenBlocks{first, here, heights * widths}, [&](const auto& add) __attribute__((always_inline)) {
          for (int r = 0; r < down; ++r) {
            const float* lines[lanes];
            for (int lane = 0; lane < lanes; ++lane) {
              lines[lane] = blocks[lane] + (whole || r < rows[lane] ? r : 0) * t.stride;
              if (whole || cols[lane] == right) continue;
              std::memset(padded[lane], 0, sizeof padded[lane]);
              std::memcpy(padded[lane], lines[lane], std::size_t(cols[lane]) * sizeof(float));
              lines[lane] = padded[lane];
            }
            turn_rows(turned, lines, right);
            const i32x16 lengths = select(all_ints(r) < heights, widths, i32x16{});
            const int of_all = whole || !any(lengths < right) ? right : 0;
            for (int i = 0; i < of_all; ++i) add(load(turned + i * lanes), Full{});
            for (int i = of_all; i < right; ++i) add(load(turned + i * lanes), Those{all_ints(i) < lengths});
          }
        });
  }
}

template <class Run>
MXT_LANES void for_blocks_along_column(const Tile& t, int along, const Run& run) {
  for (int top = 0, line = 0; top < t.rows; top += along, line += t.cols) {
    const int bottom = top + along < t.rows ? top + along : t.rows;
    for (int c = 0; c < t.cols; c += lanes) {
      const int n = t.cols - c < lanes ? t.cols - c : lanes;
      const SixteenBlocks blocks{line + c, n, all_ints(bottom - top)};
      run(
          blocks, [&](const auto& add) __attribute__((always_inline)) {
            for (int r = top; r < bottom; ++r) add(load_there(t.x + r * t.stride + c, n), Full{});
          });
    }
  }
}

/// run(blocks, each) for sixteen blocks at a time; each(add) calls add(x, Full or Those) with the first
/// element of each, then the second, in row-major order up to the longest one's last.
template <class Run>
MXT_LANES void for_blocks(const Tile& t, TileBlock block, const Run& run) {
  if (block.cols == 1) return for_blocks_along_column(t, block.rows, run);
  for_blocks_along_row(t, block, run);
}

}  // namespace mxtape::cpu::MXT_TIER
