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
};

/// c[M, N] = sum over k of a(m, k) b(n, k), in f32 sums, on the calling thread (also inside parallel_for);
/// rows of c are c_stride apart. `bias` [N] is added to every row. Write::accumulate adds to c. Two bf16
/// sides multiply exactly; a bf16 side that meets an f32 one is widened. Extents may be 0. The order of
/// additions depends on the extents, types and axes only. Few rows are multiplied by own loops
/// (is_few_rows()), more by oneDNN, or two bf16 sides by own tiles (has_own_gemm()).
void gemm_block(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b, std::int64_t M,
                std::int64_t N, std::int64_t K, Write = Write::overwrite, const float* bias = nullptr);

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

struct Piece {
  std::int64_t rows, cols;
};
/// Cuts c[M, N] into equal pieces for the threads, none of few rows unless M is, all but the last of whole
/// panels of codes. oneDNN's bits depend on it, so there it must not depend on the threads. A piece packs its
/// share of both sides, so nearly square ones waste least; of few rows, they read equal parts of b.
Piece cut(std::int64_t M, std::int64_t N, std::int64_t K, double most = 16);

/// Whether two bf16 sides are multiplied as they are; otherwise gemm_block() widens both, which changes no
/// product.
bool gemm_takes_bf16();

/// Whether its bf16 products run on AMX.
bool gemm_has_matrix_unit();

/// "oneDNN 2.6.3 avx512_core_bf16", and what it cannot do on this machine.
std::string describe_gemm_library();
/// Throws Error(usage) if oneDNN was built with threads of its own that cannot be kept to one.
void check_gemm_library();

}  // namespace mxtape::cpu
