#include <cmath>

#include "core/error.h"
#include "formats/rotation.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape {
namespace cuda {
namespace {

constexpr int most_rotated = 256;  // the longest chunk of a Rotation: a thread for each of its positions
constexpr int lines = 8;           // that a thread has: they share the position's sign

/// Where positions along the rotated axis and lines across it lie in memory.
struct Lines {
  std::int64_t extent, count;    // positions of a line; lines
  std::int64_t step, line_step;  // from one to the next
};

/// rotation_chunk() around `position`: where its chunk begins, and its size.
struct Chunk {
  int begin, size;
};
__device__ inline Chunk chunk_at(int position, int size, std::int64_t extent) {
  int begin = position / size * size;
  while (begin + size > extent) {  // the ragged end: powers of two, largest first
    size /= 2;
    if (position >= begin + size && begin + size <= extent) begin += size;
  }
  return {begin, size};
}

// A thread has one position of 8 lines, a block 256 positions: chunks lie within one block. Butterflies up to
// 16 apart are shuffles, longer ones go through shared memory.
template <class X>
__global__ void rotate_kernel(float* y, const X* x, Lines at, int size, bool with_signs, ClockedKey signs,
                              RotationWay way) {
  __shared__ float other[lines][most_rotated];
  const std::int64_t parts = (at.extent + most_rotated - 1) / most_rotated;
  const std::int64_t first = std::int64_t(blockIdx.x) % parts * most_rotated;
  const std::int64_t first_line = std::int64_t(blockIdx.x) / parts * lines;
  const int position = int(threadIdx.x);
  const bool inside = first + position < at.extent;
  const Chunk chunk = chunk_at(position, size, inside ? at.extent - first : most_rotated);
  const float sign = with_signs ? rotation_sign(now(signs), std::uint64_t(first + position)) : 1.0f;
  const float before = way == RotationWay::forth ? sign : 1.0f,
              after = way == RotationWay::back ? sign : 1.0f;
  const std::int64_t start = (first + position) * at.step + first_line * at.line_step;

  float v[lines];
#pragma unroll
  for (int l = 0; l < lines; ++l)
    v[l] = inside && first_line + l < at.count ? before * value_at(x, start + l * at.line_step) : 0.0f;
  for (int stride = 1; stride < size; stride *= 2) {
    if (stride >= warp_lanes) {
      block_sync();
#pragma unroll
      for (int l = 0; l < lines; ++l) other[l][position] = v[l];
      block_sync();
    }
#pragma unroll
    for (int l = 0; l < lines; ++l) {
      const float partner = stride < warp_lanes ? warp_xor(v[l], stride) : other[l][position ^ stride];
      const bool upper = (position & stride) != 0;
      if (stride < chunk.size) v[l] = upper ? partner - v[l] : v[l] + partner;
    }
  }
  const float norm = 1 / sqrtf(float(chunk.size));
#pragma unroll
  for (int l = 0; l < lines; ++l)
    if (inside && first_line + l < at.count) y[start + l * at.line_step] = after * (v[l] * norm);
}

}  // namespace
}  // namespace cuda

Tensor CudaBackend::rotated(const Tensor& x, const Quantization& by, RotationWay way) {
  const Rotation& rotation = by.rotation;
  require(
      rotation.size >= 2 && rotation.size <= cuda::most_rotated && (rotation.size & (rotation.size - 1)) == 0,
      "quantize: rotation of {}; want a power of two from 2 to {}", rotation.size, cuda::most_rotated);
  require(by.signs.purpose == Purpose::hadamard_signs,
          "quantize: the key of the signs has purpose {}; want {}", int(by.signs.purpose),
          int(Purpose::hadamard_signs));
  const Tensor y = empty(x.shape());
  if (x.count() == 0) return y;
  const std::int64_t rows = x.rows(), cols = x.cols();
  const cuda::Lines at =
      by.axis == Axis::row ? cuda::Lines{cols, rows, 1, cols} : cuda::Lines{rows, cols, cols, 1};
  const std::int64_t parts = (at.extent + cuda::most_rotated - 1) / cuda::most_rotated;
  const std::int64_t groups = (at.count + cuda::lines - 1) / cuda::lines;
  cuda::with_type(x.dtype(), [&]<class X>(X*) {
    cuda::launch("rotate", stream_.get(), {cuda::blocks_for(parts * groups, 1), unsigned(cuda::most_rotated)},
                 cuda::rotate_kernel<X>, y.data(), x.data<X>(), at, rotation.size,
                 rotation.signs != SignsPer::none, clocked(by.signs), way);
  });
  return y;
}

}  // namespace mxtape
