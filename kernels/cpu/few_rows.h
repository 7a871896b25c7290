#pragma once
#include "kernels/cpu/gemm.h"

namespace mxtape::cpu {

/// Rows up to which a product is a stream over b: reading b costs more than multiplying by it, and packing it
/// first, as oneDNN does, would double that.
inline constexpr std::int64_t most_few_rows = 16;

/// Whether gemm_block() takes our own loops. Then a row of c does not depend on the rows beside it, nor on
/// how many there are: a token that is computed alone gets the bits that it gets among fifteen others.
constexpr bool is_few_rows(const MatrixView& a, std::int64_t M) {
  return M <= most_few_rows && (a.axis == Axis::row || M == 1);
}

/// gemm_block() by these loops; a bf16 side is widened as it is read.
void multiply_few_rows(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b,
                       std::int64_t M, std::int64_t N, std::int64_t K, Write, const float* bias);

}  // namespace mxtape::cpu
