#pragma once
#include <string>

#include "kernels/backend.h"

namespace mxtape::cpu {

/// A row-major matrix inside larger memory, as one side of a product. `stride` is the distance between its
/// rows, in elements.
struct MatrixView {
  const void* data;
  DType dtype;  ///< f32 or bf16
  std::int64_t stride;
  Axis axis = Axis::row;  ///< over which the product sums

  MatrixView from(std::int64_t line) const {
    const std::int64_t offset = (axis == Axis::row ? line * stride : line) * size_of(dtype);
    return {static_cast<const std::byte*>(data) + offset, dtype, stride, axis};
  }
};

/// c[M, N] = sum over k of a(m, k) b(n, k), in f32 sums, on the calling thread (also inside parallel_for);
/// rows of c are c_stride apart. Sums are multiplied by `factor`; `bias` [N] is added to every row.
/// Write::accumulate adds to c. Two bf16 sides multiply exactly, and but for few rows what is below 2^-126 is
/// zero; a bf16 side that meets an f32 one is widened. Extents may be 0. The order of additions depends on K,
/// types, axes and is_few_rows() alone (GemmJob), and of two bf16 sides on whether there is AMX.
void gemm_block(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b, std::int64_t M,
                std::int64_t N, std::int64_t K, Write = Write::overwrite, const float* bias = nullptr,
                const float* factor = nullptr);

/// Rows up to which a product is a stream over b: reading b costs more than multiplying by it, and packing it
/// first would double that.
inline constexpr std::int64_t most_few_rows = 16;

/// Whether gemm_block() takes loops of their own. Then a row of c does not depend on the rows beside it, nor
/// on how many there are: a token that is computed alone gets the bits that it gets among fifteen others.
constexpr bool is_few_rows(const MatrixView& a, std::int64_t M) {
  return M <= most_few_rows && (a.axis == Axis::row || M == 1);
}

struct Piece {
  std::int64_t rows, cols;
};
/// Cuts c[M, N] into at most so many equal pieces for the threads, none of few rows unless M is, all but the
/// last of whole panels of codes. No bit depends on it. A piece packs its share of both sides, so nearly
/// square ones waste least; of few rows, they read equal parts of b.
Piece cut(std::int64_t M, std::int64_t N, std::int64_t K, double most);

/// Whether two bf16 sides are multiplied by AMX.
bool has_amx();
/// By what they are multiplied: "bf16 GEMMs avx512_bf16".
std::string describe_gemms();

}  // namespace mxtape::cpu
