#include "kernels/cuda/gemm/gemm_descriptors.h"

#include "core/error.h"

namespace mxtape::cuda {
namespace {

constexpr std::uint32_t most_alignment = 256;  // what cuBLASLt assumes unless told otherwise

std::uint32_t alignment_of(const Tensor& x) {
  const auto address = reinterpret_cast<std::uintptr_t>(x.raw()) | most_alignment;
  return std::uint32_t(address & (~address + 1));  // the lowest bit that is set
}

cudaDataType type_of(DType t) {
  require(t == DType::f32 || t == DType::bf16, "cuda: gemm: {}; want f32 or bf16", name_of(t));
  return t == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

/// `rows` x `cols` as they lie in memory, row-major: column-major, `cols` numbers a column.
auto layout(const CublasLt& lt, DType type, std::int64_t rows, std::int64_t cols) {
  cublasLtMatrixLayout_t made = nullptr;
  lt.check(lt.create_layout(&made, type_of(type), std::uint64_t(cols), std::uint64_t(rows), cols),
           "a matrix layout");
  return GemmDescriptors::Handle<cublasLtMatrixLayoutOpaque_t>(made, lt.destroy_layout);
}

/// Of a side whose product sums over `axis`.
auto operand_layout(const CublasLt& lt, DType type, std::int64_t lines, std::int64_t depth, Axis axis) {
  return axis == Axis::row ? layout(lt, type, lines, depth) : layout(lt, type, depth, lines);
}

auto operation_for(const CublasLt& lt) {
  cublasLtMatmulDesc_t made = nullptr;
  lt.check(lt.create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "an operation");
  return GemmDescriptors::Handle<cublasLtMatmulDescOpaque_t>(made, lt.destroy_operation);
}

auto preference_for(const CublasLt& lt) {
  cublasLtMatmulPreference_t made = nullptr;
  lt.check(lt.create_preference(&made), "a preference");
  return GemmDescriptors::Handle<cublasLtMatmulPreferenceOpaque_t>(made, lt.destroy_preference);
}

}  // namespace

GemmKey::GemmKey(const GemmCall& call)
    : M(call.M()),
      N(call.N()),
      K(call.K()),
      operands(call.a.dtype()),
      c(call.c.dtype()),
      a_axis(call.a_axis),
      b_axis(call.b_axis),
      biased(bool(call.bias)),
      scaled(bool(call.scale)),
      a_align(alignment_of(call.a)),
      b_align(alignment_of(call.b)),
      c_align(alignment_of(call.c)) {
  require(call.b.dtype() == operands, "cuda: gemm: a is {}, b is {}; want one type", name_of(operands),
          name_of(call.b.dtype()));
}

std::string GemmKey::text() const {
  const auto operand = [&](char name, std::int64_t rows, std::int64_t cols, bool turned) {
    return fmt::format("{} {}[{}, {}]{}", name_of(operands), name, turned ? cols : rows, turned ? rows : cols,
                       turned ? "^T" : "");
  };
  return fmt::format("{} c[{}, {}] = {}{} {}{}", name_of(c), M, N, scaled ? "alpha " : "",
                     operand('a', M, K, a_axis == Axis::column), operand('b', K, N, b_axis == Axis::row),
                     biased ? " + bias" : "");
}

GemmDescriptors::GemmDescriptors(const CublasLt& lt, const GemmKey& key, std::uint64_t workspace_bytes)
    : operation(operation_for(lt)),
      a(operand_layout(lt, key.operands, key.N, key.K, key.b_axis)),
      b(operand_layout(lt, key.operands, key.M, key.K, key.a_axis)),
      c(layout(lt, key.c, key.M, key.N)),
      preference(preference_for(lt)) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    lt.check(lt.set_operation(operation.get(), attribute, &value, sizeof value), "an operation's attribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, key.b_axis == Axis::row ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, key.a_axis == Axis::row ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_POINTER_MODE,
      key.scaled ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST);
  if (key.biased) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t(type_of(key.c)));
  }

  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt.check(lt.set_preference(preference.get(), attribute, &value, sizeof value),
             "a preference's attribute");
  };
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (key.c == DType::f32) reductions |= CUBLASLT_REDUCTION_SCHEME_INPLACE;  // in order, counted: repeatable
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_align);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_align);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_align);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c_align);
}

void GemmDescriptors::set_bias(const CublasLt& lt, const void* bias) {
  lt.check(lt.set_operation(operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
           "a bias");
}

}  // namespace mxtape::cuda
