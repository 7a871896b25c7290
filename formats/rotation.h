#pragma once
#include <string>
#include <string_view>

#include "core/random.h"

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

/// "hadamard=16 signs=step"; "hadamard=0" is none; signs=run if not said. Throws Error(usage) with the word,
/// what is wanted and the nearest name.
Rotation parse_rotation(std::string_view text);
std::string to_text(const Rotation&);
/// True if `text` means a rotation, well written or not, rather than a number format.
constexpr bool is_rotation_text(std::string_view text) { return text.starts_with("hadamard"); }

}  // namespace mxtape
