#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/codec/codec.h"
#include "tests/kernels/gemm_fixture.h"

namespace mxtape::test {
namespace {

// Integers up to 6 as e2m1 has them: every partial sum of up to 2^24 / 36 products is an integer that f32
// holds, so any order of additions gives the same number and every bit can be demanded.
TEST_F(Gemm, ExactSumsAreExactInAnyLayoutAndType) {
  for (const Extents e : all_extents)
    for (const auto& [a_axis, b_axis] : all_forms) {
      const Problem p = small_integers(e, a_axis, b_axis, random);
      for (const DType a_type : {DType::f32, DType::bf16})
        for (const DType b_type : {DType::f32, DType::bf16}) {
          const Tensor c = device().empty({e.M, e.N});
          device().run(call::Gemm{c, left(p, a_type), right(p, b_type)});
          expect_exact(p, c, std::string(name_of(a_type)) + " " + std::string(name_of(b_type)));
        }
    }
}

TEST_F(Gemm, Bf16ResultsAreTheSumsRoundedOnce) {
  for (const Extents e : {Extents{5, 7, 9}, {64, 64, 32}, {130, 17, 77}})
    for (const auto& [a_axis, b_axis] : all_forms)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Problem p = small_integers(e, a_axis, b_axis, random);
        const Tensor c = device().empty({e.M, e.N}, DType::bf16);
        device().run(call::Gemm{c, left(p, dtype), right(p, dtype)});
        expect_exact(p, c, std::string(name_of(dtype)) + " to bf16");
      }
}

// The elements of a format are multiples of its smallest one, and so are the sums of products multiples of
// its square: `most` products of largest elements stay below 2^24 of those, so f32 holds every partial sum
// whatever is added first, split or transposed.
TEST_F(Gemm, DotProductsOfMxElementsWithEqualScalesAreExactInAllThreeForms) {
  for (const auto& [element, most] : {std::pair{e2m1, 116508}, {e2m3, 4660}, {int8, 1040}}) {
    const ElementFormat format = element;  // clang 14 does not capture bindings
    const double unit = format.min_positive();
    const double largest = format.max_finite() / unit;
    ASSERT_EQ(std::int64_t(0x1p24 / (largest * largest)), most) << format.name();
    for (const std::int64_t K : {std::min(std::int64_t{most}, std::int64_t{4000}), std::int64_t{1031}})
      for (const auto& [a_axis, b_axis] :
           {std::pair{Axis::row, Axis::row}, {Axis::row, Axis::column}, {Axis::column, Axis::column}}) {
        Problem p = drawn({24, 40, K}, a_axis, b_axis, [&] {
          for (;;) {
            const float v = decode(format, std::uint32_t(random() % (1u << format.bits())));
            if (std::fabs(v) <= format.max_finite()) return v;  // not the extra code of a full range
          }
        });
        for (std::int64_t k = 0; k < K; ++k) {  // the largest sum there is, at 0, 0
          p.a[std::size_t(a_axis == Axis::row ? k : k * p.e.M)] = format.max_finite();
          p.b[std::size_t(b_axis == Axis::row ? k : k * p.e.N)] = format.max_finite();
        }
        const Tensor c = device().empty({24, 40});
        device().run(call::Gemm{c, left(p, DType::bf16), right(p, DType::bf16)});
        expect_exact(p, c, format.name());
      }
  }
}

TEST_F(Gemm, BiasMultipliersAndAccumulationFollowTheFormula) {
  const Extents e{70, 90, 40};
  const Problem p = small_integers(e, Axis::row, Axis::row, random);
  const auto one = [](float v) { return upload(device(), {1}, std::vector<float>{v}); };
  std::vector<float> addend(std::size_t(e.N));
  for (std::size_t n = 0; n < addend.size(); ++n) addend[n] = float(n);
  const Tensor bias = upload(device(), {e.N}, addend);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int scaled : {0, 1, 2})  // how many operands have a multiplier
      for (const bool biased : {false, true})
        for (const Write write : {Write::overwrite, Write::accumulate}) {
          Rounded a = left(p, dtype), b = right(p, dtype);
          if (scaled > 0) b.multiplier = one(0.25f);
          if (scaled > 1) a.multiplier = one(0.5f);
          const double factor = scaled == 0 ? 1 : scaled == 1 ? 0.25 : 0.125;
          const bool added = write == Write::accumulate;
          const Tensor c = device().empty({e.M, e.N});
          device().fill(c, added ? 3 : std::numeric_limits<float>::quiet_NaN());  // NaN: must not be read
          device().run(call::Gemm{c, a, b, biased ? bias : Tensor{}, write});
          const auto got = download(device(), c);
          for (std::int64_t m = 0; m < e.M; ++m)
            for (std::int64_t n = 0; n < e.N; ++n)
              ASSERT_EQ(got[std::size_t(m * e.N + n)],
                        float(p.sum(m, n) * factor + (biased ? double(n) : 0) + (added ? 3 : 0)))
                  << name_of(dtype) << " scaled " << scaled << " biased " << biased << " added " << added;
        }
}

// 300.5 is no bf16: it counts as 300. 1000 + 300 is halfway between the bf16 1296 and 1304 and goes to the
// even 1296; 1000 + 300.5 would go to 1304.
TEST_F(Gemm, ABiasOfABf16ResultIsRoundedToBf16First) {
  const Tensor bias = upload(device(), {3}, std::vector<float>{300.5f, -0.125f, 1});
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t K : {0, 1}) {
      const Tensor a = upload_as(device(), dtype, {2, K}, std::vector<float>(std::size_t(2 * K), 1000)),
                   b = upload_as(device(), dtype, {K, 3}, std::vector<float>(std::size_t(3 * K), 1)),
                   c = device().empty({2, 3}, DType::bf16);
      device().run(call::Gemm{c, unrounded(a), unrounded(b, Axis::column), bias});
      const std::vector<float> want = K ? std::vector<float>{1296, 1000, 1000, 1296, 1000, 1000}
                                        : std::vector<float>{300, -0.125f, 1, 300, -0.125f, 1};
      EXPECT_EQ(download(device(), c), want) << name_of(dtype) << " K " << K;
    }
}

TEST_F(Gemm, AnEmptySumIsZeroAndEmptyOutputsAreLeftAlone) {
  const Tensor c = device().empty({3, 4}), bias = device().empty({4});
  device().fill(c, 9);
  device().fill(bias, 2);
  const Rounded a = unrounded(device().empty({3, 0})), b = unrounded(device().empty({0, 4}), Axis::column);
  device().run(call::Gemm{c, a, b, bias, Write::accumulate});
  for (const float v : download(device(), c)) EXPECT_EQ(v, 11.0f);
  device().run(call::Gemm{c, a, b});
  for (const float v : download(device(), c)) EXPECT_EQ(v, 0.0f);
  device().run(call::Gemm{device().empty({0, 4}), unrounded(device().empty({0, 3})),
                          unrounded(device().empty({3, 4}), Axis::column)});
  device().run(call::Gemm{device().empty({3, 0}), unrounded(device().empty({3, 5})),
                          unrounded(device().empty({5, 0}), Axis::column)});
}

/// |computed - exact| for a sum of n products is at most this times the sum of magnitudes.
/// Any order of additions: gamma(n), Higham, Accuracy and Stability, section 3.1; one more for rounding the
/// products.
double worst_case(double n) { return (n + 1) * 0x1p-24 / (1 - (n + 1) * 0x1p-24); }
/// For rounding errors that are independent with mean zero: exceeded with a probability below
/// 2 n exp(-lambda^2 / 2) (Higham & Mary 2019, SIAM J. Sci. Comput. 41(5), theorem 2.4). lambda = 9 leaves
/// 2^-58 n a sum: below 1e-9 for all sums of this test together.
double probable(double n) { return 9 * std::sqrt(n) * 0x1p-24; }
/// Tensor cores cut instead of rounding: each step aligns at least 8 products and the running sum to the
/// largest of the nine, keeps 24 bits of each and 24 of their sum (Fasi et al. 2021, PeerJ CS 7:e330), and so
/// loses at most 10 units of 2^-23 of it.
double truncated(double n) { return std::ceil(n / 8) * 10 * 0x1p-23; }

/// How many elements of c are off by more than relative_bound * sum |a b| from the exact sums over the first
/// K - dropped products.
std::int64_t count_beyond(const Problem& p, const std::vector<float>& c, double relative_bound,
                          std::int64_t dropped) {
  std::int64_t beyond = 0;
  for (std::int64_t m = 0; m < p.e.M; ++m)
    for (std::int64_t n = 0; n < p.e.N; ++n) {
      double want = 0, magnitudes = 0;
      for (std::int64_t k = 0; k < p.e.K; ++k) {
        const double product = p.left(m, k) * p.right(k, n);
        if (k < p.e.K - dropped) want += product;
        magnitudes += std::fabs(product);
      }
      beyond += std::fabs(c[std::size_t(m * p.e.N + n)] - want) > relative_bound * magnitudes;
    }
  return beyond;
}

TEST_F(Gemm, ErrorsStayWithinTheTheoremsBoundsWhichSeeADroppedProduct) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t K : {1, 32, 1024}) {
      const Problem p = normal_values({48, 80, K}, random);
      const Tensor c = device().empty({p.e.M, p.e.N});
      device().run(call::Gemm{c, left(p, dtype), right(p, dtype)});
      const bool cuts = tested_device == TestedDevice::cuda && dtype == DType::bf16;
      const double n = double(K), bound = cuts ? truncated(n) : K <= 32 ? worst_case(n) : probable(n);
      const auto got = download(device(), c);
      EXPECT_EQ(count_beyond(p, got, bound, 0), 0) << name_of(dtype) << " K " << K;
      // A typical product is 0.6 and at K = 1024 the largest bound 0.1: most elements must miss their last
      // product.
      EXPECT_GT(count_beyond(p, got, bound, 1), p.e.M * p.e.N / 2)
          << "the bound would not see a dropped product";
    }
}

// Elements of E4M3 times scales below 2^-117 are subnormal in bf16.
TEST_F(Gemm, SubnormalBf16OperandsCount) {
  if (tested_device == TestedDevice::cpu)
    GTEST_SKIP() << "the bf16 instructions of CPUs take subnormals for zero (docs/numerics.md)";
  const std::vector<float> tiny(16 * 64, 0x1.8p-130f), large(64 * 16, 0x1p20f);
  const Tensor c = device().empty({16, 16});
  device().run(call::Gemm{c, unrounded(upload_as(device(), DType::bf16, {16, 64}, tiny)),
                          unrounded(upload_as(device(), DType::bf16, {64, 16}, large), Axis::column)});
  for (const float v : download(device(), c)) ASSERT_EQ(v, 64 * 0x1.8p-110f);
}

}  // namespace
}  // namespace mxtape::test
