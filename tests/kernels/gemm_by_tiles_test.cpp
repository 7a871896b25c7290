// Products of bf16 by AMX, against the order of additions that docs/numerics.md gives for them, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pairs/pairs.h"
#include "tests/support/gemm_problem.h"

namespace mxtape::test {
namespace {

std::vector<bf16> narrow(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float v : x) y.push_back(to_bf16(v));
  return y;
}

/// Of each 32 products the even ones are added up by fma, and the odd ones; then both together to the sum.
float defined(const Problem& p, std::int64_t m, std::int64_t n, float sum) {
  for (std::int64_t first = 0; first < p.e.K; first += 32) {
    float parts[2] = {};
    for (std::int64_t k = first; k < std::min(first + 32, p.e.K); ++k)
      parts[k % 2] = std::fma(float(p.left(m, k)), float(p.right(k, n)), parts[k % 2]);
    sum += parts[0] + parts[1];
  }
  return sum;
}

class GemmByTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::has_own_gemm()) GTEST_SKIP() << "this machine has no AMX";
  }
};

TEST_F(GemmByTiles, AddsInItsDefinedOrder) {
  std::mt19937_64 random{1};
  // Ragged tiles; more lines than are packed at once, on both sides; sums that are cut, and that are not.
  for (const Extents e :
       {Extents{17, 1, 1}, {33, 40, 31}, {65, 64, 32}, {300, 450, 33}, {129, 33, 1536}, {40, 700, 1601}})
    for (const auto& [a_axis, b_axis] : all_forms)
      for (const bool biased : {false, true})
        for (const Write write : {Write::overwrite, Write::accumulate}) {
          const Problem p =
              drawn(e, a_axis, b_axis, [&] { return to_f32(to_bf16(float(random() % 2001) / 1000 - 1)); });
          const std::vector<bf16> a = narrow(p.a), b = narrow(p.b);
          std::vector<float> c(std::size_t(e.M * e.N), 0.1f), bias(std::size_t(e.N), 0.3f);
          cpu::gemm_block(c.data(), e.N, {a.data(), DType::bf16, p.a_shape().cols(), a_axis},
                          {b.data(), DType::bf16, p.b_shape().cols(), b_axis}, e.M, e.N, e.K, write,
                          biased ? bias.data() : nullptr);
          const auto want = [&](std::int64_t i) {
            const float sum = defined(p, i / e.N, i % e.N, write == Write::accumulate ? 0.1f : 0);
            return biased ? sum + 0.3f : sum;
          };
          std::optional<std::int64_t> wrong;
          for (std::int64_t i = 0; i < e.M * e.N && !wrong; ++i)
            if (c[std::size_t(i)] != want(i)) wrong = i;
          EXPECT_FALSE(wrong) << e.M << " x " << e.N << " x " << e.K << ", element " << *wrong;
        }
}

TEST_F(GemmByTiles, HasTheSameBitsInPieces) {
  std::mt19937_64 random{2};
  const Problem p = drawn({200, 300, 1700}, Axis::row, Axis::row, [&] { return float(random() % 7) / 3; });
  const std::vector<bf16> a = narrow(p.a), b = narrow(p.b);
  std::vector<float> whole(200 * 300), pieces(200 * 300);
  const cpu::MatrixView left{a.data(), DType::bf16, 1700}, right{b.data(), DType::bf16, 1700};
  cpu::gemm_block(whole.data(), 300, left, right, 200, 300, 1700);
  for (const std::int64_t m : {0, 90}) {
    cpu::MatrixView part = left;
    part.data = a.data() + m * 1700;
    cpu::gemm_block(pieces.data() + m * 300, 300, part, right, m ? 110 : 90, 300, 1700);
  }
  EXPECT_EQ(whole, pieces);
}

}  // namespace
}  // namespace mxtape::test
