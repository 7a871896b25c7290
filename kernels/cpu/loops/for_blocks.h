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

/// Elements i of the sixteen blocks come to lie side by side, from y + 16 i on.
MXT_LANES void turn_blocks(float* y, const float* const (&blocks)[lanes], int along) {
  for (int i = 0; i < along; i += 4)
    for (int first = 0; first < lanes; first += 4) {
      i32x4 four[4];
      for (int k = 0; k < 4; ++k) std::memcpy(&four[k], blocks[first + k] + i, sizeof four[k]);
      transpose(four);
      for (int k = 0; k < 4; ++k) store_as(y + (i + k) * lanes + first, four[k]);
    }
}

template <class Run>
MXT_LANES void for_blocks_along_row(const Tile& t, int along, const Run& run) {
  const int per_row = (t.cols + along - 1) / along, count = t.rows * per_row;
  const int last = t.cols - (per_row - 1) * along;  // the length of a row's last block
  // All of it is written before the first vector is read: one whose lanes were just written would wait.
  alignas(64) float turned[longest_block * lanes];  // [element][block]
  float padded[lanes][longest_block];
  const float* row = t.x;
  for (int first = 0, at = 0; first < count; first += lanes) {
    const float* blocks[lanes];
    std::int32_t lengths[lanes];
    const int here = count - first < lanes ? count - first : lanes;
    for (int lane = 0; lane < here; ++lane) {
      blocks[lane] = row + at * along;
      lengths[lane] = ++at < per_row ? along : last;
      if (lengths[lane] < along) {
        std::memset(padded[lane], 0, sizeof padded[lane]);
        std::memcpy(padded[lane], blocks[lane], std::size_t(last) * sizeof(float));
        blocks[lane] = padded[lane];
      }
      if (at == per_row) at = 0, row += t.stride;
    }
    for (int lane = here; lane < lanes; ++lane)
      blocks[lane] = blocks[here - 1], lengths[lane] = lengths[here - 1];
    turn_blocks(turned, blocks, along);
    const i32x16 length = load_as<i32x16>(lengths);
    const int shortest = any(length < along) ? last : along;
    run(
        SixteenBlocks{first, here, length}, [&](const auto& add) __attribute__((always_inline)) {
          for (int i = 0; i < shortest; ++i) add(load(turned + i * lanes), Full{});
          for (int i = shortest; i < along; ++i) add(load(turned + i * lanes), Those{all_ints(i) < length});
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
            for (int r = top; r < bottom; ++r) {
              const float* const x = t.x + r * t.stride + c;
              add(n == lanes ? load(x) : load_first(x, n), Full{});
            }
          });
    }
  }
}

/// run(blocks, each) for sixteen blocks at a time; each(add) calls add(x, Full or Those) with the first
/// element of each, then the second, up to the longest one's last.
template <class Run>
MXT_LANES void for_blocks(const Tile& t, Axis axis, int along, const Run& run) {
  if (axis == Axis::row) return for_blocks_along_row(t, along, run);
  for_blocks_along_column(t, along, run);
}

}  // namespace mxtape::cpu::MXT_TIER
