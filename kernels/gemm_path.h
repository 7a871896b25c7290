#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "formats/integer_grid.h"

namespace mxtape {

/// Which GEMMs a device prefers where both are possible: those of values, or those of codes. Both
/// multiply the same operands; they add in another order.
enum class GemmKernels : std::uint8_t { library, integer };

/// How the two sides of a GEMM are multiplied. Products of bf16 numbers are exact in all of them; those of
/// codes and their sums in a block, too.
enum class GemmPath : std::uint8_t { f32, one_widened, bf16, integer };
inline constexpr std::array<std::string_view, 4> gemm_path_names{
    "f32 GEMM", "f32 GEMM, one side widened from bf16", "bf16 GEMM, exact products",
    "integer GEMM, exact block sums"};
/// Codes are of type u8, on both sides or on none.
constexpr GemmPath gemm_path(DType a, DType b) {
  if (a == DType::u8 && b == DType::u8) return GemmPath::integer;
  return a != b ? GemmPath::one_widened : a == DType::bf16 ? GemmPath::bf16 : GemmPath::f32;
}

}  // namespace mxtape
