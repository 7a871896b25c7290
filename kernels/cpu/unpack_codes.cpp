#include "kernels/cpu/stored.h"

#include <algorithm>
#include <array>

#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/integer_grid.h"
#include "kernels/gemm_codes.h"

namespace mxtape::cpu {
namespace {

constexpr int widest = 8;  ///< bits of an element with integer codes

/// What each code of an element stands for, in units.
std::array<std::int8_t, 1 << widest> integers_of(const ElementFormat& element) {
  const float unit = power_of_two(integer_grid(element)->unit_exponent);
  std::array<std::int8_t, 1 << widest> integers{};
  for (std::uint32_t code = 0; code < 1u << element.bits(); ++code) {
    const float steps = decode(element, code) / unit;
    // A code for a NaN, or -128 of int8, which no rounding gives.
    const bool one = steps >= -float(largest_code) && steps <= float(largest_code);
    integers[code] = one ? std::int8_t(steps) : std::int8_t{0};
  }
  return integers;
}

}  // namespace

void unpack_codes(const Rounded& y, const Rounded& x) {
  const Quantizer& q = x.by.quantizer;
  const CodeLayout at = code_layout(y);
  const bool rows = x.by.axis == Axis::row;  // are lines
  const std::int64_t cols = x.cols();
  auto* const codes = static_cast<std::int8_t*>(y.elements.raw());
  float* const scales = y.scales.data();
  if (at.padded_depth() != at.depth || at.lines % CodeLayout::panel != 0) {
    std::fill_n(codes, y.elements.count(), std::int8_t{0});
    std::fill_n(scales, y.scales.count(), 0.0f);
  }
  const auto integers = integers_of(q.element);
  const float unit = power_of_two(integer_grid(q.element)->unit_exponent);
  const BlockExtent extent = block_extent(q.block, x.rows(), cols, x.by.axis);
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  const int bits = q.element.bits();
  constexpr std::uint64_t quad = CodeLayout::quad, panel = CodeLayout::panel, group = quad * panel;
  const auto panel_codes = std::uint64_t(at.padded_depth()) * panel;
  // Rows of whole panels, or of whole quads: no two threads write to the same group.
  constexpr std::int64_t grain = 2 * CodeLayout::panel;
  parallel_for(x.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    const CodeReader all{x.elements.data<std::uint8_t>(), bits};
    for (std::int64_t r = begin; r < end; ++r) {
      CodeReader reader{all.from + r * cols * bits / 8, bits};
      if (const int inside = int(r * cols * bits % 8)) {
        reader.held = *reader.from++ >> inside;
        reader.waiting = 8 - inside;
      }
      std::int8_t* const first = codes + (rows ? at.code_at(r, 0) : at.code_at(0, r));
      for (std::uint64_t c = 0; c < std::uint64_t(cols); ++c)
        first[rows ? c / quad * group + c % quad : c / panel * panel_codes + c % panel * quad] =
            integers[reader.take()];
      if (!rows && r % at.along != 0) continue;  // the block's first row has written its scales
      for (std::int64_t c = 0; c < cols; c += rows ? at.along : 1) {
        const std::int64_t block = r / extent.rows * across + c / extent.cols;
        const float scale = load_scale(x.scales.data<std::uint8_t>(), block, q).scale * unit;
        scales[rows ? at.scale_at(r, c / at.along) : at.scale_at(c, r / at.along)] = scale;
      }
    }
  });
}

}  // namespace mxtape::cpu
