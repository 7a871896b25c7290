#pragma once
#include <string>
#include <string_view>

#include "core/random.h"
#include "formats/quantize.h"

namespace mxtape {

/// How often the signs of a random Hadamard transform are drawn again.
enum class SignsPer : std::uint8_t {
  none,  ///< no signs: a plain Hadamard transform
  run,   ///< once, from the seed
  step,  ///< each optimizer step
  call,  ///< each GEMM; of fprop and dgrad each optimizer step, as their weight copies are
};

/// x' = x diag(s) H_g / sqrt(g) on chunks of g along the axis that the GEMM sums over, before quantization.
/// The same on both operands: x' y'^T = x y^T in real arithmetic. A ragged last chunk uses the powers of two
/// that add up to it.
struct Rotation {
  std::int32_t size = 0;  ///< g: 0 (none) or a power of two, 2 to 256
  SignsPer signs = SignsPer::run;
  constexpr bool operator==(const Rotation&) const = default;
};

/// Forth is x diag(s) H_g / sqrt(g), back its inverse x H_g diag(s) / sqrt(g).
enum class RotationWay : bool { forth, back };

/// "hadamard=16 signs=step"; "hadamard=0" is none; signs=run if not said. Throws Error(usage) with the word,
/// what is wanted and the nearest name.
Rotation parse_rotation(std::string_view text);
std::string to_text(const Rotation&);
/// True if `text` means a rotation, well written or not, rather than a number format.
constexpr bool is_rotation_text(std::string_view text) { return text.starts_with("hadamard"); }

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
/// of `signs` must be Purpose::hadamard_signs; its first_element is not used. Back, the signs come last.
void rotate_reference(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                      const Rotation& rotation, const DrawKey& signs, RotationWay way = RotationWay::forth);

}  // namespace mxtape
