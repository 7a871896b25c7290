#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "formats/rotation.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/hadamard_loops.h"

namespace mxtape {

Tensor CpuBackend::rotated(const Tensor& x, const Quantization& by, RotationWay way) {
  const Rotation& rotation = by.rotation;
  require(
      rotation.size >= 2 && rotation.size <= cpu::most_rotated && (rotation.size & (rotation.size - 1)) == 0,
      "quantize: rotation of {}; want a power of two from 2 to {}", rotation.size, cpu::most_rotated);
  require(by.signs.purpose == Purpose::hadamard_signs,
          "quantize: the key of the signs has purpose {}; want {}", int(by.signs.purpose),
          int(Purpose::hadamard_signs));
  const std::int64_t rows = x.rows(), cols = x.cols();
  const std::int64_t extent = by.axis == Axis::row ? cols : rows;
  std::vector<float> signs(std::size_t(extent), 1.0f), last(std::size_t(extent), 1.0f);
  if (rotation.signs != SignsPer::none)
    for (std::int64_t i = 0; i < extent; ++i)
      (way == RotationWay::forth ? signs : last)[std::size_t(i)] = rotation_sign(by.signs, std::uint64_t(i));

  const Tensor y = empty(x.shape());
  constexpr std::int64_t work = 1 << 14;  // elements that pay for handing out a range
  if (by.axis == Axis::row) {
    parallel_for(rows, std::max<std::int64_t>(work / std::max<std::int64_t>(cols, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     float* const row = y.data() + r * cols;
                     cpu::hadamard_loops().along_row(row, x.data() + r * cols, cols, signs.data(),
                                                     rotation.size);
                     if (way == RotationWay::back)
                       for (std::int64_t c = 0; c < cols; ++c) row[c] *= last[std::size_t(c)];
                   }
                 });
    return y;
  }
  parallel_for(rows, rotation.size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin, size = 0; r < end; r += size) {
      size = rotation_chunk(rotation, r, rows);
      cpu::hadamard_loops().along_column(y.data() + r * cols, x.data() + r * cols, cols, signs.data() + r,
                                         int(size));
      if (way == RotationWay::back)
        for (std::int64_t i = r * cols; i < (r + size) * cols; ++i)
          y.data()[i] *= last[std::size_t(i / cols)];
    }
  });
  return y;
}

}  // namespace mxtape
