#include <algorithm>

#include "core/bf16.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/quantize_tile.h"
#include "kernels/cpu/stored.h"
#include "kernels/gemm_codes.h"

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
    return cpu::for_tiles(x, rows, cols, std::max(q.block.along, q.block.across), key, mask);
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

/// Calls write(place in the tensor, value) for each code. A panel's sixteen lines lie together, so one thread
/// takes whole panels.
void each_code(const Rounded& copy, const auto& write) {
  const CodeLayout at = code_layout(copy);
  const auto* const codes = static_cast<const std::int8_t*>(copy.elements.raw());
  const std::int64_t line_step = copy.by.axis == Axis::row ? at.depth : 1,
                     depth_step = copy.by.axis == Axis::row ? 1 : at.lines;
  parallel_for(at.panels(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * CodeLayout::panel; first < std::min(end * CodeLayout::panel, at.lines);
         first += CodeLayout::panel)
      for (std::int64_t k = 0; k < at.depth; ++k)
        for (std::int64_t line = first; line < std::min(first + CodeLayout::panel, at.lines); ++line)
          write(line * line_step + k * depth_step,
                float(codes[at.code_at(line, k)]) * copy.scales.data()[at.scale_at(line, k / at.along)]);
  });
}

}  // namespace

void CpuBackend::compute(const call::Recode& call) {
  check_recode(call);
  if (is_narrow(call.to.layout)) return cpu::narrow(call.to, call.from);
  if (is_narrow(call.from.layout)) return cpu::widen(call.to, call.from);
  const bool stored = call.from.layout == Layout::stored;
  if (stored) cpu::unpack(call.to, call.from);
  const bool multiplied = call.from.multiplier && !call.to.multiplier;
  if (stored && !multiplied) return;
  const Tensor &y = call.to.elements, &x = stored ? y : call.from.elements;
  const float multiplier = multiplied ? *call.from.multiplier.data() : 1.0f;
  const auto write = [&](std::int64_t i, float value) {
    if (y.dtype() == DType::bf16)
      y.data<bf16>()[i] = to_bf16(value * multiplier);
    else
      y.data()[i] = value * multiplier;
  };
  if (call.from.layout == Layout::codes) return each_code(call.from, write);
  const bool narrow = x.dtype() == DType::bf16;
  parallel_for(x.count(), work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) write(i, narrow ? to_f32(x.data<bf16>()[i]) : x.data()[i]);
  });
}

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
