// Every small shape of the CPU's product: all forms, types and writes, with dimensions of 1, and gaps between
// rows. tests/CMakeLists.txt runs it under each instruction set.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "tests/support/gemm_problem.h"

namespace mxtape::test {
namespace {

constexpr float gap = 77;  // what lies between rows of c, and must stay

/// Rows of `cols` numbers, `padding` apart; what lies between is NaN and must not be read into a sum.
struct Rows {
  std::vector<float> wide;
  std::vector<bf16> narrow;
  std::int64_t stride;

  Rows(const std::vector<float>& values, std::int64_t cols, std::int64_t padding) : stride(cols + padding) {
    const std::int64_t rows = std::int64_t(values.size()) / cols;
    wide.assign(std::size_t(rows * stride), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t i = 0; i < rows * cols; ++i)
      wide[std::size_t(i / cols * stride + i % cols)] = values[std::size_t(i)];
    for (const float v : wide) narrow.push_back(to_bf16(v));
  }
  cpu::MatrixView view(DType dtype, Axis axis) const {
    const void* const data = dtype == DType::bf16 ? static_cast<const void*>(narrow.data()) : wide.data();
    return {data, dtype, stride, axis};
  }
};

struct Padding {
  std::int64_t a, b, c;
};

/// The first element of c that is not the sum, or nothing. Sums of small integers are exact in any order.
std::string wrong(const Problem& p, Padding padding, std::array<DType, 2> dtypes, Write write, bool biased) {
  const auto [M, N, K] = p.e;
  const Rows a(p.a, p.a_shape().cols(), padding.a), b(p.b, p.b_shape().cols(), padding.b);
  const std::int64_t stride = N + padding.c;
  std::vector<float> c(std::size_t(M * stride), gap), bias(std::size_t(N), 5);
  cpu::gemm_block(c.data(), stride, a.view(dtypes[0], p.a_axis), b.view(dtypes[1], p.b_axis), M, N, K, write,
                  biased ? bias.data() : nullptr);
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < stride; ++n) {
      const bool inside = n < N;
      const double before = write == Write::accumulate || !inside ? gap : 0;
      const double want = before + (inside ? p.sum(m, n) + (biased ? 5 : 0) : 0);
      const float got = c[std::size_t(m * stride + n)];
      if (got != float(want))
        return fmt::format("{} x {} x {}, a {}{} +{}, b {}{} +{}, c +{}{}{}: {} for {} at {}, {}", M, N, K,
                           name_of(dtypes[0]), p.a_axis == Axis::row ? "" : "^T", padding.a,
                           name_of(dtypes[1]), p.b_axis == Axis::row ? "^T" : "", padding.b, padding.c,
                           write == Write::accumulate ? ", accumulated" : "", biased ? ", bias" : "", got,
                           want, m, n);
    }
  return {};
}

TEST(GemmShapes, AreRightInAllFormsWithAnyGapBetweenRows) {
  std::mt19937_64 random{1};
  int wrong_ones = 0, tried = 0;
  for (const std::int64_t M : {1, 2, 16, 17, 33, 65})
    for (const std::int64_t N : {1, 2, 16, 17, 65})
      for (const std::int64_t K : {1, 2, 16, 17, 65})
        for (const auto& [a_axis, b_axis] : all_forms) {
          const Problem p = small_integers({M, N, K}, a_axis, b_axis, random);
          for (const std::array dtypes : {std::array{DType::f32, DType::f32}, {DType::bf16, DType::bf16}})
            for (const Padding padding : {Padding{0, 0, 0}, {3, 0, 0}, {0, 3, 0}, {0, 0, 3}, {48, 48, 48}})
              for (const Write write : {Write::overwrite, Write::accumulate}) {
                const std::string message = wrong(p, padding, dtypes, write, ++tried % 4 < 2);
                if (!message.empty() && ++wrong_ones <= 10) ADD_FAILURE() << message;
              }
        }
  EXPECT_EQ(wrong_ones, 0) << "of " << tried << ", " << cpu::describe_gemms();
}

TEST(GemmShapes, AreRightWhereOneSideIsWidened) {
  std::mt19937_64 random{2};
  for (const std::int64_t M : {1, 17})
    for (const std::int64_t N : {1, 17})
      for (const std::int64_t K : {1, 33})
        for (const auto& [a_axis, b_axis] : all_forms)
          for (const std::array dtypes : {std::array{DType::f32, DType::bf16}, {DType::bf16, DType::f32}})
            for (const Write write : {Write::overwrite, Write::accumulate})
              EXPECT_EQ(
                  wrong(small_integers({M, N, K}, a_axis, b_axis, random), {3, 5, 7}, dtypes, write, true),
                  "");
}

}  // namespace
}  // namespace mxtape::test
