#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/support/every_tier.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

std::vector<bf16> narrowed(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float v : x) y.push_back(to_bf16(v));
  return y;
}

/// a [M, K] and b [N, K] or [K, N] of random numbers, in f32 and in bf16; rows of a are longer than K.
struct Sides {
  std::int64_t M, N, K, a_stride = K + 3;
  Axis axis;
  std::vector<float> a = normals(M * a_stride, 1), b = normals(N * K, 2);
  std::vector<bf16> narrow_a = narrowed(a), narrow_b = narrowed(b);

  cpu::MatrixView left(DType dtype, std::int64_t row = 0) const {
    const void* const data = dtype == DType::f32 ? static_cast<const void*>(a.data() + row * a_stride)
                                                 : narrow_a.data() + row * a_stride;
    return {data, dtype, a_stride};
  }
  cpu::MatrixView right(DType dtype) const {
    const void* const data = dtype == DType::f32 ? static_cast<const void*>(b.data()) : narrow_b.data();
    return {data, dtype, axis == Axis::row ? K : N, axis};
  }
  float a_at(DType dtype, std::int64_t m, std::int64_t k) const {
    const auto i = std::size_t(m * a_stride + k);
    return dtype == DType::f32 ? a[i] : to_f32(narrow_a[i]);
  }
  float b_at(DType dtype, std::int64_t k, std::int64_t n) const {
    const auto i = std::size_t(axis == Axis::row ? n * K + k : k * N + n);
    return dtype == DType::f32 ? b[i] : to_f32(narrow_b[i]);
  }
};

const std::vector<float> bias = normals(200, 3);

void for_all_sides(std::int64_t M, const auto& body) {
  for (const Axis axis : {Axis::row, Axis::column})
    for (const auto& [N, K] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 16}, {33, 50}, {130, 77}}) {
      const Sides sides{.M = M, .N = N, .K = K, .axis = axis};
      for (const DType a : {DType::f32, DType::bf16})
        for (const DType b : {DType::f32, DType::bf16}) body(sides, a, b);
    }
}

/// The sums of few_rows_loops.h word for word.
float by_definition(const Sides& s, DType a, DType b, std::int64_t m, std::int64_t n) {
  if (s.axis == Axis::column) {
    float sum = 0;
    for (std::int64_t k = 0; k < s.K; ++k) sum += s.a_at(a, m, k) * s.b_at(b, k, n);
    return sum;
  }
  float lanes[16] = {};
  for (std::int64_t k = 0; k < s.K; ++k) lanes[k % 16] += s.a_at(a, m, k) * s.b_at(b, k, n);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

TEST(FewRows, AreTheSumsOfTheirDefinitionInEveryTypeAndLayoutOnEveryTier) {
  for_all_sides(7, [](const Sides& s, DType a, DType b) {
    expect_same_bits_everywhere([&] {
      std::vector<float> c(std::size_t(s.M * s.N), NAN);
      cpu::gemm_block(c.data(), s.N, s.left(a), s.right(b), s.M, s.N, s.K);
      return c;
    });
    std::vector<float> c(std::size_t(s.M * s.N), 5);
    cpu::gemm_block(c.data(), s.N, s.left(a), s.right(b), s.M, s.N, s.K, Write::accumulate, bias.data());
    for (std::int64_t m = 0; m < s.M; ++m)
      for (std::int64_t n = 0; n < s.N; ++n)
        ASSERT_EQ(c[std::size_t(m * s.N + n)], 5 + (by_definition(s, a, b, m, n) + bias[std::size_t(n)]))
            << s.N << " x " << s.K << ", " << m << " " << n;
  });
}

TEST(FewRows, ARowHasTheSameBitsAloneAndAmongOthers) {
  for_all_sides(cpu::most_few_rows, [](const Sides& s, DType a, DType b) {
    std::vector<float> all(std::size_t(s.M * s.N)), one(std::size_t(s.N));
    cpu::gemm_block(all.data(), s.N, s.left(a), s.right(b), s.M, s.N, s.K);
    for (std::int64_t m = 0; m < s.M; ++m) {
      cpu::gemm_block(one.data(), s.N, s.left(a, m), s.right(b), 1, s.N, s.K);
      ASSERT_EQ(std::memcmp(one.data(), all.data() + m * s.N, one.size() * sizeof(float)), 0) << m;
    }
  });
}

// As attention multiplies probabilities that are 0 for the keys behind a query's own.
TEST(FewRows, ZerosAtTheEndOfASumOverRowsOfBAddNothing) {
  const Sides s{.M = 3, .N = 40, .K = 60, .axis = Axis::column};
  std::vector<float> a = s.a, shorter(120), longer(120);
  constexpr std::int64_t seen = 37;
  for (std::int64_t m = 0; m < s.M; ++m)
    for (std::int64_t k = seen; k < s.K; ++k) a[std::size_t(m * s.a_stride + k)] = 0;
  const cpu::MatrixView left{a.data(), DType::f32, s.a_stride};
  cpu::gemm_block(longer.data(), s.N, left, s.right(DType::f32), s.M, s.N, s.K);
  cpu::gemm_block(shorter.data(), s.N, left, s.right(DType::f32), s.M, s.N, seen);
  EXPECT_EQ(shorter, longer);
}

}  // namespace
}  // namespace mxtape
