#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/gemm.h"
#include "kernels/make_backend.h"

namespace mxtape {
namespace {

struct Extents {
  std::int64_t M, N, K;
};
// One number, vectors, ragged register tiles, and enough work to be cut into pieces both ways.
const std::vector<Extents> all_extents{{1, 1, 1},      {1, 65, 33},    {65, 1, 33},   {5, 7, 9},
                                       {33, 129, 1},   {64, 64, 32},   {130, 17, 77}, {300, 900, 40},
                                       {900, 200, 64}, {128, 1500, 70}};

class CpuGemm : public testing::Test {
 protected:
  ~CpuGemm() override { set_threads(threads_before); }

  Tensor upload(const std::vector<float>& values, Shape shape, DType dtype) {
    const Tensor x = backend->empty(shape, dtype);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::f32)
        x.data()[i] = values[i];
      else
        x.data<bf16>()[i] = to_bf16(values[i]);
    }
    return x;
  }

  const int threads_before = threads();
  std::unique_ptr<Backend> backend = make_backend("cpu");
  std::mt19937_64 random{1};
};

/// a [M, K] and b [K, N], either stored transposed.
struct Problem {
  Extents e;
  Trans a_trans, b_trans;
  std::vector<float> a, b;

  Shape a_shape() const { return a_trans == Trans::yes ? Shape{e.K, e.M} : Shape{e.M, e.K}; }
  Shape b_shape() const { return b_trans == Trans::yes ? Shape{e.N, e.K} : Shape{e.K, e.N}; }
  double left(std::int64_t m, std::int64_t k) const {
    return a[std::size_t(a_trans == Trans::yes ? k * e.M + m : m * e.K + k)];
  }
  double right(std::int64_t k, std::int64_t n) const {
    return b[std::size_t(b_trans == Trans::yes ? n * e.K + k : k * e.N + n)];
  }
};

Problem small_integers(Extents e, Trans a_trans, Trans b_trans, std::mt19937_64& random) {
  Problem p{e, a_trans, b_trans, std::vector<float>(std::size_t(e.M * e.K)),
            std::vector<float>(std::size_t(e.K * e.N))};
  for (float& v : p.a) v = float(int(random() % 13) - 6);
  for (float& v : p.b) v = float(int(random() % 13) - 6);
  return p;
}

Problem normal_values(Extents e, std::mt19937_64& random) {
  Problem p = small_integers(e, Trans::no, Trans::yes, random);
  std::normal_distribution<float> normal;
  for (float& v : p.a) v = to_f32(to_bf16(normal(random)));
  for (float& v : p.b) v = to_f32(to_bf16(normal(random)));
  return p;
}

// Integers up to 6 as e2m1 has them: every partial sum of up to 2^24 / 36 products is an integer that f32
// holds, so any order of additions gives the same number and every bit can be demanded.
TEST_F(CpuGemm, ExactSumsAreExactInAnyLayoutAndType) {
  for (const Extents e : all_extents)
    for (const auto& [a_trans, b_trans] : {std::pair{Trans::no, Trans::no},
                                          {Trans::no, Trans::yes},
                                          {Trans::yes, Trans::no},
                                          {Trans::yes, Trans::yes}})
      for (const auto& [a_type, b_type] : {std::pair{DType::f32, DType::f32},
                                          {DType::bf16, DType::bf16},
                                          {DType::f32, DType::bf16},
                                          {DType::bf16, DType::f32}}) {
        const Problem p = small_integers(e, a_trans, b_trans, random);
        const Tensor c = backend->empty({e.M, e.N});
        backend->gemm(c, {upload(p.a, p.a_shape(), a_type), a_trans},
                      {upload(p.b, p.b_shape(), b_type), b_trans});
        for (std::int64_t m = 0; m < e.M; ++m)
          for (std::int64_t n = 0; n < e.N; ++n) {
            double want = 0;
            for (std::int64_t k = 0; k < e.K; ++k) want += p.left(m, k) * p.right(k, n);
            ASSERT_EQ(c.data()[m * e.N + n], float(want))
                << e.M << "x" << e.N << "x" << e.K << " at " << m << ", " << n << " " << name_of(a_type)
                << " " << name_of(b_type) << " transposed " << int(a_trans) << int(b_trans);
          }
      }
}

TEST_F(CpuGemm, BiasMultipliersAndAccumulationFollowTheFormula) {
  const Extents e{70, 90, 40};
  const Problem p = small_integers(e, Trans::no, Trans::yes, random);
  const Operand a{upload(p.a, p.a_shape(), DType::bf16), Trans::no, upload({0.5f}, {1}, DType::f32)};
  const Operand b{upload(p.b, p.b_shape(), DType::bf16), Trans::yes, upload({0.25f}, {1}, DType::f32)};
  const Tensor bias = backend->empty({e.N});
  for (std::int64_t n = 0; n < e.N; ++n) bias.data()[n] = float(n);
  for (const bool scaled : {false, true})
    for (const bool biased : {false, true})
      for (const Write write : {Write::overwrite, Write::accumulate}) {
        const Tensor c = backend->empty({e.M, e.N});
        backend->fill(c, 3);
        backend->gemm(c, scaled ? a : Operand{a.values, a.trans}, scaled ? b : Operand{b.values, b.trans},
                      biased ? bias : Tensor{}, write);
        for (std::int64_t m = 0; m < e.M; ++m)
          for (std::int64_t n = 0; n < e.N; ++n) {
            double want = 0;
            for (std::int64_t k = 0; k < e.K; ++k) want += p.left(m, k) * p.right(k, n);
            want =
                want * (scaled ? 0.125 : 1) + (biased ? double(n) : 0) + (write == Write::accumulate ? 3 : 0);
            ASSERT_EQ(c.data()[m * e.N + n], float(want)) << "scaled " << scaled << " biased " << biased;
          }
      }
}

TEST_F(CpuGemm, AnEmptySumIsZeroAndEmptyOutputsAreLeftAlone) {
  const Tensor c = backend->empty({3, 4}), bias = backend->empty({4});
  backend->fill(c, 9);
  backend->fill(bias, 2);
  const Operand a{backend->empty({3, 0})}, b{backend->empty({0, 4})};
  backend->gemm(c, a, b, bias, Write::accumulate);
  for (const float v : c.host()) EXPECT_EQ(v, 11.0f);
  backend->gemm(c, a, b);
  for (const float v : c.host()) EXPECT_EQ(v, 0.0f);
  backend->gemm(backend->empty({0, 4}), {backend->empty({0, 3})}, {backend->empty({3, 4})});
  backend->gemm(backend->empty({3, 0}), {backend->empty({3, 5})}, {backend->empty({5, 0})});
}

/// |computed - exact| for a sum of n products is at most this times the sum of magnitudes.
/// Any order of additions: gamma(n), Higham, Accuracy and Stability, section 3.1; one more for rounding the
/// products.
double worst_case(double n) { return (n + 1) * 0x1p-24 / (1 - (n + 1) * 0x1p-24); }
/// For rounding errors that are independent with mean zero: exceeded with a probability below
/// 2 n exp(-lambda^2 / 2) (Higham & Mary 2019, SIAM J. Sci. Comput. 41(5), theorem 2.4). lambda = 9 leaves
/// 2^-58 n a sum: below 1e-9 for all sums of this test together.
double probable(double n) { return 9 * std::sqrt(n) * 0x1p-24; }

/// How many elements of c are off by more than bound(K) * sum |a b| from the exact sums over the first K -
/// dropped products.
std::int64_t count_beyond(const Problem& p, const Tensor& c, double relative_bound, std::int64_t dropped) {
  std::int64_t beyond = 0;
  for (std::int64_t m = 0; m < p.e.M; ++m)
    for (std::int64_t n = 0; n < p.e.N; ++n) {
      double want = 0, magnitudes = 0;
      for (std::int64_t k = 0; k < p.e.K; ++k) {
        const double product = p.left(m, k) * p.right(k, n);
        if (k < p.e.K - dropped) want += product;
        magnitudes += std::fabs(product);
      }
      beyond += std::fabs(c.data()[m * p.e.N + n] - want) > relative_bound * magnitudes;
    }
  return beyond;
}

TEST_F(CpuGemm, ErrorsStayWithinTheTheoremsBoundsWhichSeeADroppedProduct) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t K : {1, 32, 4096}) {
      const Problem p = normal_values({48, 80, K}, random);
      const Tensor c = backend->empty({p.e.M, p.e.N});
      backend->gemm(c, {upload(p.a, p.a_shape(), dtype)}, {upload(p.b, p.b_shape(), dtype), Trans::yes});
      const double bound = K <= 32 ? worst_case(double(K)) : probable(double(K));
      EXPECT_EQ(count_beyond(p, c, bound, 0), 0) << name_of(dtype) << " K " << K;
      // A typical product is 0.6 and at K = 4096 the bound 0.09: most elements must miss their last product.
      EXPECT_GT(count_beyond(p, c, bound, 1), p.e.M * p.e.N / 2)
          << "the bound would not see a dropped product";
    }
}

TEST_F(CpuGemm, TheNumberOfThreadsChangesNoBit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Problem p = normal_values({500, 700, 300}, random);
    const Operand a{upload(p.a, p.a_shape(), dtype)}, b{upload(p.b, p.b_shape(), dtype), Trans::yes};
    const Tensor one = backend->empty({500, 700}), more = backend->empty({500, 700});
    set_threads(1);
    backend->gemm(one, a, b);
    for (const int count : {2, 3}) {
      set_threads(count);
      backend->gemm(more, a, b);
      EXPECT_EQ(std::memcmp(one.raw(), more.raw(), std::size_t(one.bytes())), 0) << count << " threads";
    }
  }
}

TEST_F(CpuGemm, NothingIsWrittenOutsideTheOutput) {
  constexpr std::int64_t guard = 64;
  for (const Extents e : all_extents) {
    const Problem p = small_integers(e, Trans::no, Trans::no, random);
    const Tensor memory = backend->empty({e.M * e.N + 2 * guard});
    backend->fill(memory, 77);
    const Tensor c(std::shared_ptr<void>(std::make_shared<Tensor>(memory), memory.data() + guard), {e.M, e.N},
                   DType::f32);
    backend->gemm(c, {upload(p.a, p.a_shape(), DType::bf16)}, {upload(p.b, p.b_shape(), DType::bf16)});
    for (std::int64_t i = 0; i < guard; ++i) {
      ASSERT_EQ(memory.data()[i], 77) << i;
      ASSERT_EQ(memory.data()[guard + e.M * e.N + i], 77) << i;
    }
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
                    {k.data() + h * D, DType::f32, width, Trans::yes}, T, T, D);
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
  const Problem p = small_integers(e, Trans::no, Trans::no, random);
  const Tensor c = backend->empty({e.M, e.N});
  backend->gemm(c, {upload(p.a, p.a_shape(), DType::bf16)}, {upload(p.b, p.b_shape(), DType::bf16)});
  parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
    volatile float smallest_normal = 0x1p-126f, half = 0.5f, subnormal = 0x1p-127f, large = 0x1p10f;
    EXPECT_EQ(smallest_normal * half, 0x1p-127f) << "flush to zero is on";
    EXPECT_EQ(subnormal * large, 0x1p-117f) << "denormals are zero is on";
  });
  const Tensor tiny = backend->empty({1, 1});
  backend->gemm(tiny, {upload({0x1p-127f}, {1, 1}, DType::f32)}, {upload({0x1p10f}, {1, 1}, DType::f32)});
  EXPECT_EQ(tiny.data()[0], 0x1p-117f);
}

TEST_F(CpuGemm, ShapesThatDoNotFitAreAnErrorThatNamesThem) {
  try {
    backend->gemm(backend->empty({2, 5}), {backend->empty({2, 3})}, {backend->empty({4, 5})});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "gemm: a is [2, 3], b is [4, 5], c is f32 [2, 5]; want an f32 c[M, N] = a[M, K] b[K, N]");
  }
  EXPECT_THROW(backend->gemm(backend->empty({2, 5}), {backend->empty({2, 3})}, {backend->empty({3, 5})},
                             backend->empty({4})),
               Error);
}

}  // namespace
}  // namespace mxtape
