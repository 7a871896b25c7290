#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/quantize_tile.h"

namespace mxtape {
namespace {

constexpr std::int64_t work = 1 << 13;  // elements that pay for handing out a range

/// straight_through_reference(), blocks or tiles of them shared among the threads.
void go_back(float* dx, const float* dy, const float* x, std::int64_t rows, std::int64_t cols,
             const call::QuantizeBackward& call) {
  const Quantizer& q = call.by.quantizer;
  const BlockRule rule = block_rule(q);
  const float encode = cpu::encode_of(q, rule, x, rows * cols);
  if (call.ste.kind == SteKind::mask && cpu::has_scale_loops(q)) {
    const DrawKey* const key = q.scale_rounding == ScaleRounding::stochastic ? &call.by.draws : nullptr;
    const auto mask = [&](const cpu::Tile& tile, std::int64_t row, std::int64_t col, cpu::TileDraws bits) {
      const cpu::TileGradients gradients{dx + row * cols + col, dy + row * cols + col};
      cpu::quantize_tile(gradients, tile, call.by.axis, q, rule, encode, bits);
    };
    const int longest = std::max(q.block.along, q.block.across);
    return cpu::for_tiles(x, rows, cols, cpu::tile_extent(cols, longest), key, mask);
  }
  const BlockExtent extent =
      q.scale == ScaleKind::none ? BlockExtent{1, work} : block_extent(q.block, rows, cols, call.by.axis);
  const BlockExtent group = group_extent(q, rows, cols, call.by.axis);
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  parallel_for(
      (rows + extent.rows - 1) / extent.rows * across,
      std::max<std::int64_t>(work / (extent.rows * extent.cols), 1),
      [&](std::int64_t begin, std::int64_t end) {
        StraightThroughSink sink{dx, dy, x, rule, call.ste};
        const auto draw = [&](std::int64_t i) {
          return draw_bits(call.by.draws, std::uint64_t(i), q.sr_bits);
        };
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t r = b / across * extent.rows, c = b % across * extent.cols;
          const BlockRange block{r, std::min(rows, r + extent.rows), c, std::min(cols, c + extent.cols)};
          const float own = rule.group_scale ? encode_of_group(x, rows, cols, rule, group, block) : encode;
          quantize_block(x, cols, rule, block, own, draw, sink);
        }
      });
}

}  // namespace

void CpuBackend::compute(const call::QuantizeBackward& call) {
  check_quantize_backward(call);
  const std::int64_t rows = call.dy.rows(), cols = call.dy.cols();
  const bool turns = call.by.rotation.size != 0, bends = call.ste.kind != SteKind::identity;
  Tensor gradient = turns && !call.rotated ? rotated(call.dy, call.by) : call.dy;
  if (bends) {
    const Tensor x = turns ? rotated(call.x, call.by) : call.x;
    const Tensor bent = turns ? empty(call.dy.shape()) : call.dx;
    go_back(bent.data(), gradient.data(), x.data(), rows, cols, call);
    gradient = bent;
  }
  if (turns) gradient = rotated(gradient, call.by, RotationWay::back);
  if (gradient.raw() != call.dx.raw()) copy(call.dx, gradient);
}

}  // namespace mxtape
