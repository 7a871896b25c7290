#include "formats/rotation.h"

#include <array>
#include <cmath>

#include "core/error.h"

namespace mxtape {
namespace {

/// H_g / sqrt(g) in place.
void transform(std::span<float> v) {
  for (std::size_t stride = 1; stride < v.size(); stride *= 2)
    for (std::size_t base = 0; base < v.size(); base += 2 * stride)
      for (std::size_t i = base; i < base + stride; ++i) {
        const float a = v[i], b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
  const float norm = 1 / std::sqrt(float(v.size()));
  for (float& value : v) value *= norm;
}

}  // namespace

void rotate_reference(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                      const Rotation& rotation, const DrawKey& signs, RotationWay way) {
  require(rotation.size >= 0 && rotation.size <= 256 && (rotation.size & (rotation.size - 1)) == 0,
          "rotate: size {}, want 0 or a power of two up to 256", rotation.size);
  require(signs.purpose == Purpose::hadamard_signs, "rotate: the key of the signs has purpose {}",
          int(signs.purpose));
  const bool down = axis == Axis::column;
  const std::int64_t extent = down ? rows : cols, lines = down ? cols : rows;
  const std::int64_t step = down ? cols : 1, line_step = down ? 1 : cols;
  std::array<float, 256> chunk{};
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t at = 0, size = 0; at < extent; at += size) {
      size = rotation.size == 0 ? 1 : rotation_chunk(rotation, at, extent);
      const auto sign = [&](std::int64_t i, RotationWay when) {
        const bool signed_ = when == way && rotation.size != 0 && rotation.signs != SignsPer::none;
        return signed_ ? rotation_sign(signs, std::uint64_t(at + i)) : 1.0f;
      };
      for (std::int64_t i = 0; i < size; ++i)
        chunk[std::size_t(i)] = sign(i, RotationWay::forth) * x[line * line_step + (at + i) * step];
      transform({chunk.data(), std::size_t(size)});
      for (std::int64_t i = 0; i < size; ++i)
        y[line * line_step + (at + i) * step] = sign(i, RotationWay::back) * chunk[std::size_t(i)];
    }
}

}  // namespace mxtape
