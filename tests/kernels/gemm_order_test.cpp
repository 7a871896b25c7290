// Products against the order of additions that docs/numerics.md gives for them, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
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
    total = first == 0 ? sum + 0.0f : total + (sum + 0.0f);
  }
  return total;
}

constexpr float there = 0.1f, added = 0.3f;  // what is in c, and each of the bias

/// All sums of a problem by their definition.
std::vector<float> all_sums(const Problem& p, bool tiles, bool pairs, float begin) {
  std::vector<float> sums;
  for (std::int64_t i = 0; i < p.e.M * p.e.N; ++i) {
    const std::int64_t m = i / p.e.N, n = i % p.e.N;
    sums.push_back(tiles ? by_tiles(p, m, n, begin) : by_parts(p, m, n, pairs));
  }
  return sums;
}

struct Form {
  DType dtype;
  Write write;
  bool biased;
  bool tiles() const { return dtype == DType::bf16 && cpu::has_amx(); }
};

/// AMX begins with what is in c; without, that comes last.
std::vector<float> want(const Problem& p, const Form& f) {
  const bool accumulate = f.write == Write::accumulate, tiles = f.tiles();
  std::vector<float> c = all_sums(p, tiles, f.dtype == DType::bf16, accumulate ? there : 0);
  for (float& x : c) {
    if (f.biased) x += added;
    if (accumulate && !tiles) x = there + x;
  }
  return c;
}

std::vector<float> product(const Problem& p, const Form& f) {
  const std::vector<bf16> narrow_a = narrow(p.a), narrow_b = narrow(p.b);
  const auto view = [&](const std::vector<float>& wide, const std::vector<bf16>& narrow, Shape shape,
                        Axis axis) {
    const void* const data = f.dtype == DType::bf16 ? static_cast<const void*>(narrow.data()) : wide.data();
    return cpu::MatrixView{data, f.dtype, shape.cols(), axis};
  };
  std::vector<float> c(std::size_t(p.e.M * p.e.N), there), bias(std::size_t(p.e.N), added);
  cpu::gemm_block(c.data(), p.e.N, view(p.a, narrow_a, p.a_shape(), p.a_axis),
                  view(p.b, narrow_b, p.b_shape(), p.b_axis), p.e.M, p.e.N, p.e.K, f.write,
                  f.biased ? bias.data() : nullptr);
  return c;
}

/// To the bit: 0 is not -0.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class GemmOrder : public testing::Test {
 protected:
  void TearDown() override { cpu::set_tier(best); }
  const cpu::Tier best = cpu::tier();
};

TEST_F(GemmOrder, IsThatOfTheDefinitionWithEveryInstructionSet) {
  std::mt19937_64 random{1};
  // Ragged blocks; more lines than are packed at once, on both sides; sums that are cut, and that are not.
  for (const Extents e : {Extents{17, 1, 1},
                          {33, 40, 31},
                          {65, 64, 32},
                          {150, 1050, 33},
                          {1050, 17, 513},
                          {20, 33, 1536},
                          {20, 450, 1601}})
    for (const auto& [a_axis, b_axis] : all_forms) {
      const Problem p =
          drawn(e, a_axis, b_axis, [&] { return to_f32(to_bf16(float(random() % 2001) / 1000 - 1)); });
      for (const Form& f : {Form{DType::f32, Write::overwrite, false},
                            {DType::f32, Write::accumulate, true},
                            {DType::bf16, Write::overwrite, true},
                            {DType::bf16, Write::accumulate, false}}) {
        const auto text = fmt::format("{}, {} x {} x {}", name_of(f.dtype), e.M, e.N, e.K);
        for (const cpu::PairTier t : pair_tiers_of_this_machine()) {
          const InPairs pairs(t);
          EXPECT_TRUE(same(product(p, f), want(p, f))) << name_of(t) << ", " << text;
        }
        const InPairs loops(cpu::PairTier::loops);
        const std::vector<float> wanted = want(p, f);
        for (const cpu::Tier t : f.dtype == DType::bf16 ? tiers_of_this_machine() : tiers_with_fma()) {
          cpu::set_tier(t);
          EXPECT_TRUE(same(product(p, f), wanted)) << cpu::name_of(t) << ", " << text;
        }
        cpu::set_tier(best);
      }
    }
}

TEST_F(GemmOrder, OfBf16TakesNumbersBelowTheNormalOnesForZero) {
  std::mt19937_64 random{2};
  const Problem p = drawn({40, 50, 71}, Axis::row, Axis::column,
                          [&] { return std::ldexp(float(random() % 200) - 100, random() % 4 ? -67 : -130); });
  const Form f{DType::bf16, Write::overwrite, false};
  const auto is_right = [&] { return same(product(p, f), want(p, f)); };
  for (const cpu::PairTier t : pair_tiers_of_this_machine()) {
    const InPairs pairs(t);
    EXPECT_TRUE(cpu::has_amx() || best == cpu::Tier::baseline || is_right()) << name_of(t);
  }
  const InPairs loops(cpu::PairTier::loops);
  for (const cpu::Tier t : tiers_of_this_machine()) {
    cpu::set_tier(t);
    EXPECT_TRUE(t == cpu::Tier::baseline || is_right())
        << cpu::name_of(t);  // without fma products are flushed
  }
}

TEST_F(GemmOrder, AProductThatIsFlushedToMinusZeroIsZero) {
  int drawn_before = 0;
  const Problem p =
      drawn({17, 3, 1}, Axis::row, Axis::row, [&] { return drawn_before++ < 17 ? -0x1p-70f : 0x1p-70f; });
  for (const cpu::PairTier t : pair_tiers_of_this_machine()) {
    const InPairs pairs(t);
    for (const float x : product(p, {DType::bf16, Write::overwrite, false})) EXPECT_FALSE(std::signbit(x));
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
