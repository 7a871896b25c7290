#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/codec/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/pack_tiles.h"

namespace mxtape {

// For storage and transport, not inside a pass. All threads where strips of rows can be packed each for
// itself: by vector loops, or by formats/codec/mx_tensor.h, the definition.
namespace {

constexpr std::int64_t strip_rows = cpu::TilePacker::most_rows;  // codes of any width fill whole bytes
constexpr std::int64_t none = -1;

bool has_strips(const PackedTensor& y) {
  const BlockExtent e = block_extent(y.quantizer.block, y.rows, y.cols, y.axis);
  return !y.quantizer.has_tensor_scale() &&
         (y.quantizer.scale == ScaleKind::none || strip_rows % std::max<std::int64_t>(e.rows, 1) == 0);
}

/// Rows [first, first + rows) of y; returns its element without a code.
std::int64_t pack_rows(const PackedTensor& y, const cpu::TilePacker* packer, const float* x,
                       std::int64_t first, std::int64_t rows, DrawKey key) {
  const Quantizer& q = y.quantizer;
  key.first_element += std::uint64_t(first * y.cols);
  const PackedLayout before = packed_layout(q, first, y.cols, y.axis);
  if (packer &&
      packer->pack(y.codes.data<std::uint8_t>() + before.codes, y.scales.data<std::uint8_t>() + before.scales,
                   x + first * y.cols, int(rows), y.cols, key)) {
    if (y.multiplier && first == 0) *y.multiplier.data() = 1 / q.alpha;
    return none;
  }
  std::int64_t first_uncoded = none;
  const MxTensor t = mxtape::pack(x + first * y.cols, rows, y.cols, y.axis, q, key, first_uncoded);
  const auto put = [](const Tensor& to, std::int64_t at, const std::vector<std::uint8_t>& bytes) {
    if (to) std::copy(bytes.begin(), bytes.end(), to.data<std::uint8_t>() + at);
  };
  put(y.codes, before.codes, t.codes);
  put(y.scales, before.scales, t.scales);
  put(y.offsets, before.offsets, bytes_of(t.offsets));
  if (y.multiplier && first == 0) *y.multiplier.data() = t.multiplier;
  return first_uncoded == none ? none : first * y.cols + first_uncoded;
}

}  // namespace

void CpuBackend::compute(const call::Pack& call) {
  check_pack(call.y, call.x);
  const PackedTensor& y = call.y;
  const std::int64_t rows = has_strips(y) ? strip_rows : std::max<std::int64_t>(y.rows, 1);
  std::optional<cpu::TilePacker> packer;
  if (has_strips(y) && cpu::TilePacker::takes(y.quantizer)) packer.emplace(y.quantizer, y.axis);
  std::vector<std::int64_t> uncoded(std::size_t(std::max<std::int64_t>((y.rows + rows - 1) / rows, 1)), none);
  parallel_for(std::ssize(uncoded), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t strip = begin; strip < end; ++strip)
      uncoded[std::size_t(strip)] = pack_rows(y, packer ? &*packer : nullptr, call.x.data(), strip * rows,
                                              std::min(rows, y.rows - strip * rows), call.draws);
  });
  const auto first = std::find_if(uncoded.begin(), uncoded.end(), [](std::int64_t i) { return i != none; });
  *y.first_uncoded.data<std::int32_t>() = std::int32_t(std::min<std::int64_t>(
      first == uncoded.end() ? none : *first, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace mxtape
