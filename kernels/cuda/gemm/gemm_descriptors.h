#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/gemm/cublas_lt.h"
#include "kernels/cuda/gemm/gemm_call.h"

namespace mxtape::cuda {

/// Everything that the choice of an algorithm depends on.
struct GemmKey {
  std::int64_t M, N, K;
  DType operands, c;
  Axis a_axis, b_axis;
  bool biased, scaled;                      ///< scaled: alpha and beta are in device memory
  std::uint32_t a_align, b_align, c_align;  ///< of the first element, in bytes: a power of two up to 256
  auto operator<=>(const GemmKey&) const = default;

  explicit GemmKey(const GemmCall&);
  /// "bf16 c[64, 128] = bf16 a[64, 32] bf16 b[128, 32]^T + bias".
  std::string text() const;
};

/// A product in cuBLASLt's terms. cuBLASLt is column-major, and a row-major matrix is the transpose of a
/// column-major one with the same bytes: so it is asked for c^T = b a^T, with b as its A. Its
/// rows are then our columns, along which its bias epilogue adds a vector as we want it.
///   * Sums are f32 whatever the operands are (COMPUTE_32F). f32 operands are there because bf16 cannot hold
///     them: TF32, which keeps 10 bits of their fractions, would round them after all.
///   * Parts of a sum cut along K are added in f32 too: reduction in c's type is left out where c is bf16.
/// Needs no device.
struct GemmDescriptors {
  template <class T>
  using Handle = std::unique_ptr<T, cublasStatus_t (*)(T*)>;

  GemmDescriptors(const CublasLt&, const GemmKey&, std::uint64_t workspace_bytes);
  /// cuBLASLt reads the pointer when the product runs or an algorithm is chosen.
  void set_bias(const CublasLt&, const void* bias);

  Handle<cublasLtMatmulDescOpaque_t> operation;
  Handle<cublasLtMatrixLayoutOpaque_t> a, b, c;  ///< its A is our b
  Handle<cublasLtMatmulPreferenceOpaque_t> preference;
};

}  // namespace mxtape::cuda
