#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/choose/make_backend.h"
#include "tests/support/gemm_problem.h"

// What holds for the CPU's products beyond gemm_test.cpp.
namespace mxtape::test {
namespace {

class CpuGemm : public testing::Test {
 protected:
  ~CpuGemm() override { set_threads(threads_before); }

  const int threads_before = threads();
  std::unique_ptr<Backend> backend = make_backend("cpu");
  std::mt19937_64 random{1};
};

TEST_F(CpuGemm, TheNumberOfThreadsChangesNoBit) {
  // In the last two, a last piece of a few rows would be multiplied in another way.
  for (const Extents e : {Extents{500, 700, 300}, {257, 64, 2048}, {521, 256, 1024}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Problem p = normal_values(e, random);
      const Rounded a = unrounded(upload_as(*backend, dtype, p.a_shape(), p.a)),
                    b = unrounded(upload_as(*backend, dtype, p.b_shape(), p.b));
      const Tensor one = backend->empty({e.M, e.N}), more = backend->empty({e.M, e.N});
      set_threads(1);
      backend->run(call::Gemm{one, a, b});
      for (const int count : {2, 3, 8}) {
        set_threads(count);
        backend->run(call::Gemm{more, a, b});
        EXPECT_EQ(std::memcmp(one.raw(), more.raw(), std::size_t(one.bytes())), 0) << count << " threads";
      }
    }
}

// On a GPU the library may add in another order for a result of another type.
TEST_F(CpuGemm, ABf16ResultIsTheF32ResultRounded) {
  const Problem p = normal_values({70, 90, 333}, random);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Rounded a = unrounded(upload_as(*backend, dtype, p.a_shape(), p.a)),
                  b = unrounded(upload_as(*backend, dtype, p.b_shape(), p.b));
    const Tensor narrow = backend->empty({70, 90}, DType::bf16), wide = backend->empty({70, 90});
    backend->run(call::Gemm{narrow, a, b});
    backend->run(call::Gemm{wide, a, b});
    auto want = download(*backend, wide);
    for (float& v : want) v = to_f32(to_bf16(v));
    EXPECT_EQ(download(*backend, narrow), want) << name_of(dtype);
  }
}

TEST_F(CpuGemm, BlocksInsideParallelForMultiplyStridedViewsAndTouchNothingBetween) {
  constexpr std::int64_t heads = 6, T = 20, D = 12, width = heads * D;
  std::vector<float> q(T * width), k(T * width);
  for (float& v : q) v = float(int(random() % 9) - 4);
  for (float& v : k) v = float(int(random() % 9) - 4);
  std::vector<float> scores(heads * T * (T + 3), 77);
  set_threads(3);
  parallel_for(heads, 1, [&](std::int64_t h, std::int64_t) {
    cpu::gemm_block(scores.data() + h * T * (T + 3), T + 3, {q.data() + h * D, DType::f32, width},
                    {k.data() + h * D, DType::f32, width}, T, T, D);
  });
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j < T + 3; ++j) {
        float want = j < T ? 0.0f : 77.0f;
        for (std::int64_t d = 0; d < D && j < T; ++d)
          want += q[std::size_t(i * width + h * D + d)] * k[std::size_t(j * width + h * D + d)];
        ASSERT_EQ(scores[std::size_t((h * T + i) * (T + 3) + j)], want) << h << " " << i << " " << j;
      }
}

TEST_F(CpuGemm, SubnormalsSurviveInOurThreadsAndInF32Products) {
  set_threads(3);
  const Extents e{256, 256, 256};
  const Problem p = small_integers(e, Axis::row, Axis::column, random);
  const Tensor c = backend->empty({e.M, e.N});
  backend->run(call::Gemm{c, unrounded(upload_as(*backend, DType::bf16, p.a_shape(), p.a)),
                          unrounded(upload_as(*backend, DType::bf16, p.b_shape(), p.b), Axis::column)});
  parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
    volatile float smallest_normal = 0x1p-126f, half = 0.5f, subnormal = 0x1p-127f, large = 0x1p10f;
    EXPECT_EQ(smallest_normal * half, 0x1p-127f) << "flush to zero is on";
    EXPECT_EQ(subnormal * large, 0x1p-117f) << "denormals are zero is on";
  });
  const Tensor tiny = backend->empty({1, 1});
  backend->run(call::Gemm{tiny, unrounded(upload(*backend, {1, 1}, std::vector{0x1p-127f})),
                          unrounded(upload(*backend, {1, 1}, std::vector{0x1p10f}), Axis::column)});
  EXPECT_EQ(tiny.data()[0], 0x1p-117f);
}

}  // namespace
}  // namespace mxtape::test
