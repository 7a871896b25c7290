// Products against the order of additions that docs/numerics.md gives for them, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/tier.h"
#include "kernels/cpu/pairs/pairs.h"
#include "tests/support/every_tier.h"
#include "tests/support/gemm_problem.h"

namespace mxtape::test {
namespace {

std::vector<bf16> narrow(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float v : x) y.push_back(to_bf16(v));
  return y;
}

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? 0 : x; }

/// With AMX: of each 32 products the even ones are added up by fma, and the odd ones; then both together to
/// the sum.
float by_tiles(const Problem& p, std::int64_t m, std::int64_t n, float sum) {
  for (std::int64_t first = 0; first < p.e.K; first += 32) {
    float parts[2] = {};
    for (std::int64_t k = first; k < std::min(first + 32, p.e.K); ++k)
      parts[k % 2] = std::fma(float(p.left(m, k)), float(p.right(k, n)), parts[k % 2]);
    sum += parts[0] + parts[1];
  }
  return sum;
}

/// One product after the other, of 512 at a time, whose sums are added up.
float by_parts(const Problem& p, std::int64_t m, std::int64_t n, bool pairs) {
  const std::int64_t K = p.e.K, depth = 512;
  const auto number = [&](double x) { return pairs ? flushed(float(x)) : float(x); };
  float total = 0;
  for (std::int64_t first = 0; first < K; first += depth) {
    float sum = 0;
    const std::int64_t end = std::min(first + depth, K);
    for (std::int64_t k = first; k < end; ++k)
      sum = number(std::fma(number(p.left(m, k)), number(p.right(k, n)), sum));
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

/// The first element that is not what its definition says, or nothing.
std::optional<std::int64_t> wrong(const Problem& p, DType dtype, Write write, bool biased) {
  const Extents e = p.e;
  const bool pairs = dtype == DType::bf16, accumulate = write == Write::accumulate;
  const std::vector<bf16> narrow_a = narrow(p.a), narrow_b = narrow(p.b);
  const auto view = [&](const std::vector<float>& wide, const std::vector<bf16>& narrow, Shape shape,
                        Axis axis) {
    const void* const data = pairs ? static_cast<const void*>(narrow.data()) : wide.data();
    return cpu::MatrixView{data, dtype, shape.cols(), axis};
  };
  std::vector<float> c(std::size_t(e.M * e.N), 0.1f), bias(std::size_t(e.N), 0.3f);
  cpu::gemm_block(c.data(), e.N, view(p.a, narrow_a, p.a_shape(), p.a_axis),
                  view(p.b, narrow_b, p.b_shape(), p.b_axis), e.M, e.N, e.K, write,
                  biased ? bias.data() : nullptr);
  const auto want = [&](std::int64_t m, std::int64_t n) {
    if (pairs && cpu::has_amx()) {
      const float sum = by_tiles(p, m, n, accumulate ? 0.1f : 0);
      return biased ? sum + 0.3f : sum;
    }
    const float sum = by_parts(p, m, n, pairs), whole = biased ? sum + 0.3f : sum;
    return accumulate ? 0.1f + whole : whole;
  };
  for (std::int64_t i = 0; i < e.M * e.N; ++i)
    if (c[std::size_t(i)] != want(i / e.N, i % e.N)) return i;
  return {};
}

class GemmOrder : public testing::Test {
 protected:
  void TearDown() override { cpu::set_tier(best), cpu::use_bf16_instructions(true); }
  const cpu::Tier best = cpu::tier();
};

TEST_F(GemmOrder, IsThatOfTheDefinitionWithEveryInstructionSet) {
  std::mt19937_64 random{1};
  // Ragged blocks; more lines than are packed at once, on both sides; sums that are cut, and that are not.
  for (const Extents e : {Extents{17, 1, 1},
                          {33, 40, 31},
                          {65, 64, 32},
                          {300, 450, 33},
                          {99, 130, 513},
                          {40, 33, 1536},
                          {40, 700, 1601}})
    for (const auto& [a_axis, b_axis] : all_forms) {
      const Problem p =
          drawn(e, a_axis, b_axis, [&] { return to_f32(to_bf16(float(random() % 2001) / 1000 - 1)); });
      for (const bool biased : {false, true})
        for (const Write write : {Write::overwrite, Write::accumulate})
          for (const DType dtype : {DType::f32, DType::bf16}) {
            const auto test = [&](std::string_view set) {
              const auto i = wrong(p, dtype, write, biased);
              EXPECT_EQ(i.value_or(-1), -1)
                  << set << ", " << name_of(dtype) << ", " << e.M << " x " << e.N << " x " << e.K;
            };
            cpu::set_tier(best);
            if (cpu::use_bf16_instructions(true) && dtype == DType::bf16) test("pairs");
            cpu::use_bf16_instructions(false);
            for (const cpu::Tier t : tiers_of_this_machine()) {
              // Products of f32 are rounded where there is no fma.
              if (t == cpu::Tier::baseline && dtype == DType::f32 && best != t) continue;
              cpu::set_tier(t), test(cpu::name_of(t));
            }
          }
    }
}

TEST_F(GemmOrder, OfBf16TakesNumbersBelowTheNormalOnesForZero) {
  std::mt19937_64 random{2};
  const Problem p = drawn({40, 50, 70}, Axis::row, Axis::column,
                          [&] { return std::ldexp(float(random() % 200) - 100, random() % 4 ? -67 : -130); });
  const auto is_right = [&] { return !wrong(p, DType::bf16, Write::overwrite, false); };
  EXPECT_TRUE(cpu::has_amx() || best == cpu::Tier::baseline || is_right());
  cpu::use_bf16_instructions(false);
  for (const cpu::Tier t : tiers_of_this_machine()) {
    cpu::set_tier(t);
    EXPECT_TRUE(t == cpu::Tier::baseline || is_right())
        << cpu::name_of(t);  // without fma products are flushed
  }
}

TEST_F(GemmOrder, IsTheSameInPieces) {
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
