#pragma once
#include "formats/quantize.h"
#include "formats/rotation.h"

namespace mxtape {

/// +1 or -1 for a position along the summed axis: bit (position & 127) of the key's group position >> 7. Both
/// operands of a GEMM use the same key, and so the same signs.
MXT_HD constexpr float rotation_sign(const DrawKey& key, std::uint64_t position) {
  const std::uint32_t word = key.group(position >> 7)[position >> 5 & 3];
  return (word >> (position & 31) & 1u) != 0 ? -1.0f : 1.0f;
}

/// The size of the chunk that starts at `position` of an axis of `extent`: the rotation's, or, at a ragged
/// end, the largest power of two that still fits.
constexpr std::int64_t rotation_chunk(const Rotation& rotation, std::int64_t position, std::int64_t extent) {
  std::int64_t size = rotation.size;
  while (size > extent - position) size /= 2;
  return size;
}

/// The definition: y = x diag(s) H_g / sqrt(g) along `axis` of x [rows, cols]; y may be x. Butterflies in f32
/// of strides 1, 2, 4 ... g / 2, sum before difference, then one multiplication by 1 / sqrt(g). The purpose
/// of `signs` must be Purpose::hadamard_signs; its first_element is not used.
void rotate_reference(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                      const Rotation& rotation, const DrawKey& signs);

}  // namespace mxtape
