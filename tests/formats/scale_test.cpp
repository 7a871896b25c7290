#include <gtest/gtest.h>

#include <cmath>

#include "formats/block.h"
#include "tests/support/for_all.h"

namespace mxtape {
namespace {

using namespace test;

/// The rule from its definition (docs/numerics.md), in double, where every f32 and its logarithm's floor are
/// exact: A = mu * 2^e by frexp.
int exponent_by_hand(const ElementFormat& f, ScaleRule rule, float amax) {
  int e = 0;
  const double mu = 2 * std::frexp(double(amax), &e);
  e -= 1;
  int top = 0;
  const double nu = 2 * std::frexp(double(f.max_finite()), &top);
  top -= 1;
  switch (rule) {
    case ScaleRule::floor:
      return e - f.emax;
    case ScaleRule::ceil:
      return e - f.emax + (mu > 1 ? 1 : 0);
    case ScaleRule::even:
      return e - f.emax + (mu >= 2 - std::ldexp(1, -(f.mantissa_bits + 1)) ? 1 : 0);
    case ScaleRule::rceil:
      return e - top + (mu > nu ? 1 : 0);
    case ScaleRule::rfloor:
      return e - top - (mu < nu ? 1 : 0);
    case ScaleRule::rnearest:
      return int(std::lround(e - top + std::log2(mu / nu)));
  }
  return 0;
}

TEST(Scale, EveryRulePicksTheExponentOfItsDefinition) {
  for (const NamedFormat& row : element_formats)
    for (const auto& [name, rule, delta] : scale_rules)
      for_all(
          fmt::format("exponent of {} rule={}", row.name, name), 2000,
          [](Random& random) { return float_of(std::uint32_t(random() % 0x7f800000u)); },
          [&](float amax) {
            if (amax == 0) return true;
            return shared_exponent(exponent_rule(row.format, rule), amax) ==
                   exponent_by_hand(row.format, rule, amax);
          });
}

TEST(Scale, EveryRuleIsExactAtItsThresholdsInEveryBinade) {
  for (const ElementFormat& f : {e4m3, e5m2, e3m2, e2m3, e2m1, e3m0, int8, int4, int2})
    for (const auto& [name, rule, delta] : scale_rules)
      for (int e = -149; e <= 127; ++e)
        for (const double mu : {1.0, 2 - std::ldexp(1, -(f.mantissa_bits + 1)),
                                double(f.max_finite()) / std::exp2(std::floor(std::log2(f.max_finite())))}) {
          const auto x = float(std::ldexp(mu, e));
          for (const float amax : {std::nextafter(x, 0.0f), x, std::nextafter(x, 1e38f)}) {
            if (!(amax > 0 && std::isfinite(amax))) continue;
            ASSERT_EQ(shared_exponent(exponent_rule(f, rule), amax), exponent_by_hand(f, rule, amax))
                << f.name() << " rule=" << name << " of " << amax;
          }
        }
}

TEST(Scale, ExponentsClampBelowAndSaturateOrBecomeNaNAbove) {
  Quantizer q = mx(e4m3);
  q.scale_bits = 4;  // exponents -7 to 7
  EXPECT_EQ(power_of_two_scale(block_rule(q), 1e-20f).scale, 0x1p-7f);
  EXPECT_EQ(power_of_two_scale(block_rule(q), 1e6f).scale, 0x1p7f);
  q.overflow = ScaleOverflow::nan;
  EXPECT_TRUE(std::isnan(power_of_two_scale(block_rule(q), 1e6f).scale));
  EXPECT_EQ(power_of_two_scale(block_rule(mx(e4m3)), 0).scale, 0x1p-127f);
}

}  // namespace
}  // namespace mxtape
