#include "kernels/cpu/integer/dots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/error.h"
#include "kernels/gemm_codes.h"

namespace mxtape::test {
namespace {

using cpu::DotTier;

std::vector<DotTier> dot_tiers_of_this_machine() {
  std::vector<DotTier> tiers;
  for (const DotTier t : {DotTier::portable, DotTier::avx2, DotTier::avx_vnni, DotTier::avx512_vnni,
                          DotTier::neon, DotTier::sdot})
    if (cpu::has_dot_tier(t)) tiers.push_back(t);
  return tiers;
}

/// One side in the order in which one writes it down, and as kernels read it.
struct Side {
  CodeLayout layout;
  std::vector<int> codes;     // [lines][depth]
  std::vector<float> scales;  // [lines][segments]
  std::vector<std::int8_t> laid_codes;
  std::vector<float> laid_scales;

  Side(std::int64_t lines, std::int64_t depth, int segment, const auto& code, const auto& scale)
      : layout{lines, depth, segment},
        laid_codes(std::size_t(layout.codes().count())),
        laid_scales(std::size_t(layout.scales().count())) {
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t s = 0; s < layout.blocks(); ++s)
        laid_scales[std::size_t(layout.scale_at(i, s))] = scales.emplace_back(scale(i, s));
      for (std::int64_t k = 0; k < depth; ++k) {
        const bool zero = scales[std::size_t(i * layout.blocks() + k / segment)] == 0;
        laid_codes[std::size_t(layout.code_at(i, k))] = std::int8_t(codes.emplace_back(zero ? 0 : code()));
      }
    }
  }
  cpu::DotsSide view() const {
    const auto [lowest, highest] = std::minmax_element(laid_codes.begin(), laid_codes.end());
    return {laid_codes.data(), laid_scales.data(), layout.padded_depth() * CodeLayout::panel,
            layout.blocks() * CodeLayout::panel,
            laid_codes.empty() ? 0 : std::max(-int(*lowest), int(*highest))};
  }
};

struct Product {
  std::int64_t rows, cols, depth;
  int segment;
};

/// What dots.h says, in exact integers and one f32 operation at a time.
std::vector<float> by_hand(const Side& a, const Side& b, const Product& p, std::vector<float> c,
                           bool accumulate, const float* factor, const float* bias) {
  const std::int64_t segments = a.layout.blocks();
  for (std::int64_t m = 0; m < p.rows; ++m)
    for (std::int64_t n = 0; n < p.cols; ++n) {
      float sum = 0;
      for (std::int64_t s = 0; s < segments; ++s) {
        std::int64_t products = 0;
        for (std::int64_t k = s * p.segment; k < std::min(p.depth, (s + 1) * p.segment); ++k)
          products += a.codes[std::size_t(m * p.depth + k)] * b.codes[std::size_t(n * p.depth + k)];
        const float by_a = float(products) * a.scales[std::size_t(m * segments + s)];
        sum = std::fma(by_a, b.scales[std::size_t(n * segments + s)], sum);
      }
      if (factor) sum = sum * *factor;
      if (bias) sum = sum + bias[n];
      float& out = c[std::size_t(m * p.cols + n)];
      out = accumulate ? out + sum : sum;
    }
  return c;
}

bool same_number(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, 4) == 0; }

void expect_equal_on_every_tier(const Product& p, const Side& a, const Side& b, const char* what) {
  std::vector<float> before(std::size_t(p.rows * p.cols)), bias(std::size_t(p.cols));
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = 0.37f * float(i % 17) - 2;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.11f * float(i % 13);
  const float factor = 0.7f;
  const DotTier best = cpu::dot_tier();
  for (const bool rich : {false, true}) {
    const auto want = by_hand(a, b, p, before, rich, rich ? &factor : nullptr, rich ? bias.data() : nullptr);
    for (const DotTier tier : dot_tiers_of_this_machine()) {
      cpu::set_dot_tier(tier);
      std::vector<float> c = before;
      cpu::multiply_codes({.a = a.view(),
                           .b = b.view(),
                           .rows = p.rows,
                           .cols = p.cols,
                           .depth = a.layout.padded_depth(),
                           .segment = p.segment,
                           .c = c.data(),
                           .c_stride = p.cols,
                           .accumulate = rich,
                           .factor = rich ? &factor : nullptr,
                           .bias = rich ? bias.data() : nullptr});
      int shown = 0;
      for (std::size_t i = 0; i < c.size() && shown < 3; ++i)
        if (!same_number(c[i], want[i]))
          ++shown, ADD_FAILURE() << what << " " << p.rows << "x" << p.cols << "x" << p.depth
                                 << " in segments of " << p.segment << " on " << cpu::name_of(tier) << " at "
                                 << i << ": " << c[i] << ", want " << want[i];
    }
  }
  cpu::set_dot_tier(best);
}

void expect_equal_on_every_tier(const Product& p, const auto& code, const auto& scale, const char* what) {
  const auto side = [&](std::int64_t lines) {
    return Side(lines, p.depth, p.segment, code, [&](std::int64_t, std::int64_t) { return scale(); });
  };
  expect_equal_on_every_tier(p, side(p.rows), side(p.cols), what);
}

// One number, ragged panels both ways, ragged segments, several chunks of the depth, one long segment.
const Product cases[] = {{1, 1, 1, 16},      {1, 1, 16, 16},      {3, 5, 40, 32},      {16, 48, 64, 32},
                         {17, 49, 33, 16},   {5, 80, 100, 48},    {66, 33, 31, 32},    {20, 97, 900, 32},
                         {33, 20, 1700, 16}, {7, 18, 1040, 1040}, {9, 35, 2100, 1040}, {4, 16, 500, 128},
                         {2, 3, 0, 32}};

TEST(Dots, EveryTierHasTheBitsOfIntegerSumsAndF32Scales) {
  std::mt19937_64 random(1);
  for (const Product& p : cases)
    for (const int largest : {1, 12, 16, 17, 127})
      expect_equal_on_every_tier(
          p, [&] { return int(random() % std::uint64_t(2 * largest + 1)) - largest; },
          [&] { return std::ldexp(1 + float(random() % 8) / 8, int(random() % 30) - 20); }, "random");
}

TEST(Dots, EveryTierSumsTheLargestCodesExactly) {
  std::mt19937_64 random(2);
  for (const Product& p : cases)
    for (const int largest : {16, 127})
      for (const int sign : {-1, 0, 1})  // all alike, or alternating by chance
        expect_equal_on_every_tier(
            p, [&] { return sign           ? largest * sign
                            : random() % 2 ? largest
                                           : -largest; }, [] { return 1.0f; },
            "largest");
}

TEST(Dots, NansInfinitiesAndSubnormalScalesComeOutAsTheDefinitionHasThem) {
  std::mt19937_64 random(3);
  const float special[] = {std::nanf(""), INFINITY, 0x1p-133f, 0x1p-149f,  0x1p-126f,
                           0x1p127f,      0x1p120f, 0,         0x1.8p-70f, 1};
  for (const Product& p : cases)
    expect_equal_on_every_tier(
        p, [&] { return int(random() % 25) - 12; },
        [&] { return random() % 4 ? 0x1p-3f : special[random() % std::size(special)]; }, "special");
}

// Powers of two on one side or both, scales that panels share, codes that have room for their scale's
// fraction, and what just misses each of them: loops take shortcuts there.
TEST(Dots, ScalesOfFewDigitsHaveTheSameBits) {
  std::mt19937_64 random(4);
  const auto below = [&](int n) { return int(random() % std::uint64_t(n)); };
  const auto side = [&](const Product& p, std::int64_t lines) {
    const int largest[] = {7, 8, 9, 12, 127}, ranges[] = {0, 10, 50, 110}, all_digits[] = {0, 0, 3, 3, 4};
    const int most = largest[below(5)], range = ranges[below(4)], digits = all_digits[below(5)];
    const bool shared = below(2) != 0, zeros = below(2) != 0;
    std::vector<float> of_panel;
    return Side(
        lines, p.depth, p.segment, [&, most] { return below(2 * most + 1) - most; },
        [&, range, digits, shared, zeros](std::int64_t line, std::int64_t segment) {
          if (segment == 0 && line % CodeLayout::panel == 0) of_panel.clear();
          const float fraction = float(below(1 << digits)) / float(1 << digits);
          const float drawn =
              zeros && below(8) == 0 ? 0 : std::ldexp(1 + fraction, below(2 * range + 1) - range);
          if (line % CodeLayout::panel == 0) of_panel.push_back(drawn);
          return shared ? of_panel[std::size_t(segment)] : drawn;
        });
  };
  for (const Product& p : cases)
    for (int i = 0; p.segment <= 32 && i < (p.depth > 100 ? 20 : 400); ++i)
      expect_equal_on_every_tier(p, side(p, p.rows), side(p, p.cols), "few digits");
}

TEST(Dots, ATierThatIsNotThereIsRefused) {
  for (const DotTier t : {DotTier::avx_vnni, DotTier::sdot})
    if (!cpu::has_dot_tier(t)) {
      EXPECT_THROW(cpu::set_dot_tier(t), Error);
    }
}

}  // namespace
}  // namespace mxtape::test
