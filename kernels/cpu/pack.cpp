#include "kernels/cpu/stored.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/cpu/pack_tiles.h"

namespace mxtape::cpu {

// For storage and transport, not inside a pass. All threads where strips of rows can be packed each for
// itself: by vector loops, or by formats/codec/mx_tensor.h, the definition.
namespace {

constexpr std::int64_t strip_rows = TilePacker::most_rows;  // codes of any width fill whole bytes
constexpr std::int64_t none = -1;

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
  const auto put = [](const Tensor& to, std::int64_t at, const std::vector<std::uint8_t>& bytes) {
    if (to) std::copy(bytes.begin(), bytes.end(), to.data<std::uint8_t>() + at);
  };
  put(y.elements, before.codes, t.codes);
  put(y.scales, before.scales, t.scales);
  put(y.offsets, before.offsets, bytes_of(t.offsets));
  if (y.multiplier && first == 0) *y.multiplier.data() = t.multiplier;
  return first_uncoded == none ? none : first * cols + first_uncoded;
}

}  // namespace

std::int64_t pack(const Rounded& y, const float* x) {
  const std::int64_t all = y.rows(), rows = has_strips(y) ? strip_rows : std::max<std::int64_t>(all, 1);
  std::optional<TilePacker> packer;
  if (has_strips(y) && TilePacker::takes(y.by.quantizer)) packer.emplace(y.by.quantizer, y.by.axis);
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
