#include <algorithm>
#include <optional>

#include "kernels/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/quantize_tile.h"
#include "kernels/cpu/tile_rotation.h"

namespace mxtape {
namespace {

/// ste=mask in one pass: tile by tile x is rotated, and dy where it is not yet, and dx rotated back.
void mask_tiles(const call::QuantizeBackward& call) {
  const Quantization& by = call.by;
  const Quantizer& q = by.quantizer;
  const BlockRule rule = block_rule(q);
  const std::int64_t rows = call.x.rows(), cols = call.x.cols();
  std::optional<cpu::TileRotation> forth, back;
  if (by.rotation.size != 0) forth.emplace(by, rows, cols), back.emplace(by, rows, cols, RotationWay::back);
  const bool of_tensor = q.has_tensor_scale() || q.block.along == 0;
  const float amax = of_tensor ? cpu::amax_of(call.x, forth ? &*forth : nullptr) : 0,
              encode = q.has_tensor_scale() ? tensor_encode_scale(rule, amax) : 1;
  const auto mask = [&](const cpu::Tile& tile, std::int64_t row, std::int64_t col, cpu::TileDraws) {
    const std::int64_t first = row * cols + col;
    float* const dx = call.dx.data() + first;
    const float* dy = call.dy.data() + first;
    const auto along = [&](const float* x) { return cpu::Tile{x, cols, tile.rows, tile.cols}; };
    if (forth && !call.rotated) dy = (*forth)(dx, cols, along(dy), row, col).x;
    const cpu::Tile x = forth ? (*forth)(tile, row, col) : tile;
    cpu::quantize_tile(cpu::TileGradients{dx, dy, cols}, x, by.axis, q, rule, encode,
                       {&by.draws, std::uint64_t(first), cols, {}, amax});
    if (back) (*back)(dx, cols, along(dx), row, col);
  };
  const int block = std::max({q.block.along, q.block.across, 1});
  const auto extent = cpu::tile_extent(cols, std::max(block, forth ? forth->down() : 1),
                                       std::max(block, forth ? forth->right() : 1));
  cpu::for_tiles(call.x.data(), rows, cols, extent, nullptr, mask);
}

/// straight_through_reference(), shared among the threads.
void go_back(float* dx, const float* dy, const Tensor& x, const call::QuantizeBackward& call) {
  const Quantizer& q = call.by.quantizer;
  const BlockRule rule = block_rule(q);
  const float encode = q.has_tensor_scale() ? tensor_encode_scale(rule, cpu::amax_of(x, nullptr)) : 1;
  cpu::blocks_by_definition(call.by, rule, encode, x.data(), x.rows(), x.cols(),
                            StraightThroughSink{dx, dy, x.data(), rule, call.ste});
}

}  // namespace

void CpuBackend::compute(const call::QuantizeBackward& call) {
  check_quantize_backward(call);
  const bool turns = call.by.rotation.size != 0, bends = call.ste.kind != SteKind::identity;
  if (call.ste.kind == SteKind::mask && cpu::has_scale_loops(call.by.quantizer)) return mask_tiles(call);
  Tensor gradient = turns && !call.rotated ? rotated(call.dy, call.by) : call.dy;
  if (bends) {
    const Tensor bent = turns ? empty(call.dy.shape()) : call.dx;
    go_back(bent.data(), gradient.data(), turns ? rotated(call.x, call.by) : call.x, call);
    gradient = bent;
  }
  if (turns) gradient = rotated(gradient, call.by, RotationWay::back);
  if (gradient.raw() != call.dx.raw()) copy(call.dx, gradient);
}

}  // namespace mxtape
