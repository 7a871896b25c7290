#include "kernels/cuda/gemm/gemm_descriptors.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/error.h"
#include "tests/support/device.h"
#include "tests/support/gemm_problem.h"

// cuBLASLt makes descriptors without a GPU: what ours say is read back and followed on the host.
namespace mxtape::test {
namespace {

using cuda::GemmCall;
using cuda::GemmDescriptors;
using cuda::GemmKey;

class GemmDescription : public testing::Test {
 protected:
  void SetUp() override {
    try {
      lt = &cuda::cublas_lt();
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  template <class T>
  T operation(const GemmDescriptors& d, cublasLtMatmulDescAttributes_t what) {
    T value{};
    std::size_t written = 0;
    lt->check(lt->get_operation(d.operation.get(), what, &value, sizeof value, &written), "reading back");
    return value;
  }
  template <class T>
  T layout(cublasLtMatrixLayout_t of, cublasLtMatrixLayoutAttribute_t what) {
    T value{};
    std::size_t written = 0;
    lt->check(lt->get_layout(of, what, &value, sizeof value, &written), "reading back");
    return value;
  }
  template <class T>
  T preference(const GemmDescriptors& d, cublasLtMatmulPreferenceAttributes_t what) {
    T value{};
    std::size_t written = 0;
    lt->check(lt->get_preference(d.preference.get(), what, &value, sizeof value, &written), "reading back");
    return value;
  }

  const cuda::CublasLt* lt = nullptr;
  std::mt19937_64 random{1};
};

GemmCall call_for(const Problem& p, DType dtype, DType c_type) {
  return {device().empty({p.e.M, p.e.N}, c_type), upload_as(device(), dtype, p.a_shape(), p.a),
          upload_as(device(), dtype, p.b_shape(), p.b), p.a_axis, p.b_axis};
}

TEST_F(GemmDescription, FollowedByTheBookItIsTheRowMajorProduct) {
  for (const auto& [a_axis, b_axis] : all_forms) {
    const Problem p = small_integers({5, 7, 9}, a_axis, b_axis, random);
    const GemmCall call = call_for(p, DType::f32, DType::f32);
    const GemmDescriptors d(*lt, GemmKey(call), 0);
    const auto ld = [&](const auto& of) { return layout<std::int64_t>(of.get(), CUBLASLT_MATRIX_LAYOUT_LD); };
    const auto rows = [&](const auto& of) {
      return std::int64_t(layout<std::uint64_t>(of.get(), CUBLASLT_MATRIX_LAYOUT_ROWS));
    };
    const auto cols = [&](const auto& of) {
      return std::int64_t(layout<std::uint64_t>(of.get(), CUBLASLT_MATRIX_LAYOUT_COLS));
    };
    const bool turn_a = operation<std::int32_t>(d, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
    const bool turn_b = operation<std::int32_t>(d, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
    // Its extents, by its documentation: D [m, n] = op(A) [m, k] op(B) [k, n], column-major.
    const std::int64_t m = rows(d.c), n = cols(d.c), k = turn_a ? rows(d.a) : cols(d.a);
    ASSERT_EQ(turn_a ? cols(d.a) : rows(d.a), m);
    ASSERT_EQ(turn_b ? cols(d.b) : rows(d.b), k);
    ASSERT_EQ(turn_b ? rows(d.b) : cols(d.b), n);
    const float *const A = call.b.data(), *const B = call.a.data();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t s = 0; s < k; ++s)
          sum += double(turn_a ? A[s + i * ld(d.a)] : A[i + s * ld(d.a)]) *
                 double(turn_b ? B[j + s * ld(d.b)] : B[s + j * ld(d.b)]);
        call.c.data()[i + j * ld(d.c)] = float(sum);
      }
    for (std::int64_t i = 0; i < p.e.M * p.e.N; ++i)
      ASSERT_EQ(call.c.data()[i], float(p.sum(i / p.e.N, i % p.e.N)));
  }
}

TEST_F(GemmDescription, SumsAreF32AndKeptSoWhereTheyAreCut) {
  const Problem p = small_integers({16, 8, 24}, Axis::row, Axis::row, random);
  for (const auto& [operands, result] :
       {std::pair{DType::bf16, DType::bf16}, {DType::bf16, DType::f32}, {DType::f32, DType::f32}}) {
    const GemmDescriptors d(*lt, GemmKey(call_for(p, operands, result)), 1 << 20);
    EXPECT_EQ(operation<std::int32_t>(d, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
    EXPECT_EQ(operation<std::int32_t>(d, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
    const auto reductions = preference<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    EXPECT_FALSE(reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    EXPECT_EQ(bool(reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE), result == DType::f32);
    EXPECT_EQ(preference<std::uint64_t>(d, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), std::uint64_t{1} << 20);
    const auto type = [](DType t) { return std::uint32_t(t == DType::f32 ? CUDA_R_32F : CUDA_R_16BF); };
    EXPECT_EQ(layout<std::uint32_t>(d.a.get(), CUBLASLT_MATRIX_LAYOUT_TYPE), type(operands));
    EXPECT_EQ(layout<std::uint32_t>(d.b.get(), CUBLASLT_MATRIX_LAYOUT_TYPE), type(operands));
    EXPECT_EQ(layout<std::uint32_t>(d.c.get(), CUBLASLT_MATRIX_LAYOUT_TYPE), type(result));
  }
}

TEST_F(GemmDescription, ABiasAndFactorsOnTheDeviceAreSaid) {
  const Problem p = small_integers({16, 8, 24}, Axis::row, Axis::row, random);
  for (const DType result : {DType::f32, DType::bf16}) {
    GemmCall call = call_for(p, DType::bf16, result);
    const GemmDescriptors plain(*lt, GemmKey(call), 0);
    EXPECT_EQ(operation<std::uint32_t>(plain, CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_DEFAULT);
    EXPECT_EQ(operation<std::int32_t>(plain, CUBLASLT_MATMUL_DESC_POINTER_MODE), CUBLASLT_POINTER_MODE_HOST);
    call.bias = device().empty({8}, result);
    call.scale = device().empty({2});
    GemmDescriptors d(*lt, GemmKey(call), 0);
    d.set_bias(*lt, call.bias.raw());
    EXPECT_EQ(operation<std::uint32_t>(d, CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_BIAS);
    EXPECT_EQ(operation<std::int32_t>(d, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE),
              result == DType::f32 ? CUDA_R_32F : CUDA_R_16BF);
    EXPECT_EQ(operation<void*>(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER), call.bias.raw());
    EXPECT_EQ(operation<std::int32_t>(d, CUBLASLT_MATMUL_DESC_POINTER_MODE), CUBLASLT_POINTER_MODE_DEVICE);
  }
}

TEST_F(GemmDescription, AlignmentsAreThoseOfTheFirstElements) {
  const Tensor memory = device().empty({4096}, DType::bf16);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.raw()) % 64, 0u);
  const auto from = [&](std::int64_t element, Shape shape) {
    return Tensor(std::shared_ptr<void>(std::make_shared<Tensor>(memory), memory.data<bf16>() + element),
                  shape, DType::bf16);
  };
  const GemmCall call{from(24, {8, 8}), from(1, {8, 8}), from(4, {8, 8}), Axis::row, Axis::row};
  const GemmDescriptors d(*lt, GemmKey(call), 0);
  EXPECT_EQ(preference<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), 8u);  // our b
  EXPECT_EQ(preference<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), 2u);  // our a
  EXPECT_EQ(preference<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES), 16u);
  EXPECT_EQ(preference<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), 16u);
}

TEST(GemmKeys, NameTheProductAsItIsWritten) {
  const Problem p = drawn({2, 3, 4}, Axis::row, Axis::row, [] { return 1.0f; });
  GemmCall call = call_for(p, DType::bf16, DType::f32);
  EXPECT_EQ(GemmKey(call).text(), "f32 c[2, 3] = bf16 a[2, 4] bf16 b[3, 4]^T");
  call.bias = device().empty({3}), call.scale = device().empty({2});
  EXPECT_EQ(GemmKey(call).text(), "f32 c[2, 3] = alpha bf16 a[2, 4] bf16 b[3, 4]^T + bias");
  EXPECT_NE(GemmKey(call), GemmKey(call_for(p, DType::bf16, DType::f32)));
}

}  // namespace
}  // namespace mxtape::test
