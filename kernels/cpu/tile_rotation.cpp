#include "kernels/cpu/tile_rotation.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/hadamard_loops.h"

namespace mxtape {
namespace cpu {
namespace {

/// rotation_sign() of each position: a group of draws has 128.
void draw_signs(std::vector<float>& signs, const DrawKey& key) {
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < signs.size(); ++i) {
    if (i % 128 == 0) words = key.group(i / 128);
    signs[i] = (words[i / 32 % 4] >> i % 32 & 1u) != 0 ? -1.0f : 1.0f;
  }
}

}  // namespace

TileRotation::TileRotation(const Quantization& by, std::int64_t rows, std::int64_t cols, RotationWay way)
    : size_(by.rotation.size), axis_(by.axis) {
  require(size_ >= 2 && size_ <= most_rotated && (size_ & (size_ - 1)) == 0,
          "quantize: rotation of {}; want a power of two from 2 to {}", size_, most_rotated);
  require(by.signs.purpose == Purpose::hadamard_signs,
          "quantize: the key of the signs has purpose {}; want {}", int(by.signs.purpose),
          int(Purpose::hadamard_signs));
  before_.assign(std::size_t(axis_ == Axis::row ? cols : rows), 1.0f);
  after_ = before_;
  if (by.rotation.signs != SignsPer::none) draw_signs(way == RotationWay::forth ? before_ : after_, by.signs);
}

Tile TileRotation::operator()(float* y, std::int64_t stride, const Tile& x, std::int64_t row,
                              std::int64_t col) const {
  const HadamardLoops& loops = hadamard_loops();
  const std::int64_t first = axis_ == Axis::row ? col : row;
  HadamardSigns signs{before_.data() + first, after_.data() + first};
  if (axis_ == Axis::row)
    loops.along_row(y, stride, x, signs, size_);
  else
    for (int r = 0, size = size_; r < x.rows; r += size, signs.before += size, signs.after += size) {
      while (size > x.rows - r) size /= 2;
      loops.along_column(y + r * stride, stride, x.x + r * x.stride, x.stride, x.cols, signs, size);
    }
  return {y, stride, x.rows, x.cols};
}

float amax_of(const Tensor& x, const TileRotation* rotation) {
  // To turn tiles twice costs less than to write them and read them.
  const std::int64_t cols = x.cols();
  const TileExtent extent =
      rotation ? tile_extent(cols, rotation->down(), rotation->right()) : tile_extent(cols, 1);
  std::atomic<std::uint32_t> most{0};
  for_tiles(x.data(), x.rows(), cols, extent, nullptr,
            [&](const Tile& tile, std::int64_t row, std::int64_t col, TileDraws) {
              const Tile t = rotation ? (*rotation)(tile, row, col) : tile;
              std::uint32_t here = 0;
              for (int r = 0; r < t.rows; ++r)
                here = std::max(here, quantize_loops().amax(t.x + r * t.stride, t.cols));
              for (std::uint32_t seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
              }
            });
  return float_of(most);
}

}  // namespace cpu

Tensor CpuBackend::rotated(const Tensor& x, const Quantization& by, RotationWay way) {
  const std::int64_t cols = x.cols();
  const cpu::TileRotation rotation(by, x.rows(), cols, way);
  const Tensor y = empty(x.shape());
  cpu::for_tiles(x.data(), x.rows(), cols, cpu::tile_extent(cols, rotation.down(), rotation.right()), nullptr,
                 [&](const cpu::Tile& tile, std::int64_t row, std::int64_t col, cpu::TileDraws) {
                   rotation(y.data() + row * cols + col, cols, tile, row, col);
                 });
  return y;
}

}  // namespace mxtape
