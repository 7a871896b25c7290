#pragma once
#include "kernels/rounded.h"

namespace mxtape {

/// Where the parts of a Rounded in Layout::codes lie: `lines` of `depth` numbers, of which a GEMM sums over
/// the depth. Blocks of `along` numbers of a line share a scale, and lines are rows of the matrix if its
/// blocks run along rows, else columns. Sixteen lines lie side by side, four codes of each in turn, as
/// kernels of byte dot products read both sides:
///   elements, signed bytes in a u8 tensor: [panel][depth / 4][line % 16][depth % 4]
///   scales, f32: [panel][block][line % 16]
/// A number is element * scale; the scale has the element's unit in it. Lines that are missing in the last
/// panel, and codes that are missing in the last group of 16, are 0. The codes of a NaN block are 0 and its
/// scale is NaN.
struct CodeLayout {
  static constexpr int panel = 16, quad = 4;
  std::int64_t lines = 0, depth = 0;
  int along = 0;

  std::int64_t panels() const { return (lines + panel - 1) / panel; }
  std::int64_t padded_depth() const { return (depth + code_group - 1) / code_group * code_group; }
  std::int64_t blocks() const { return along ? (depth + along - 1) / along : 0; }
  Shape codes() const { return {panels(), padded_depth() / quad, panel, quad}; }
  Shape scales() const { return {panels(), blocks(), panel}; }
  std::int64_t code_at(std::int64_t line, std::int64_t k) const {
    return ((line / panel * (padded_depth() / quad) + k / quad) * panel + line % panel) * quad + k % quad;
  }
  std::int64_t scale_at(std::int64_t line, std::int64_t block) const {
    return (line / panel * blocks() + block) * panel + line % panel;
  }
  bool operator==(const CodeLayout&) const = default;
};

inline CodeLayout code_layout(const Rounded& r) {
  const std::int64_t rows = r.rows(), cols = r.cols();
  const int along = r.by.quantizer.block.along;
  return r.by.axis == Axis::row ? CodeLayout{rows, cols, along} : CodeLayout{cols, rows, along};
}

}  // namespace mxtape
