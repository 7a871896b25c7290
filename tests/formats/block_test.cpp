// scale_of_block() against its sentences in docs/numerics.md. Kernels on every device call it: to compare
// them with each other would not show an error in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/quantize_blocks.h"
#include "tests/formats/grid_by_hand.h"
#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

BlockScale scale_in_one_row(const std::vector<float>& x, const Quantizer& q, float encode = 1) {
  const auto count = std::int64_t(x.size());
  return scale_of_block(block_rule(q), encode, BlockOfMatrix{x.data(), count, {0, 1, 0, count}},
                        [] { return 0u; });
}

TEST(Block, TheOffsetIsTheNearestFp16ToTheMidpointAndTheScaleThatOfWhatIsLeft) {
  for (const char* text :
       {"mxfp4 offset=fp16", "mxint8 offset=fp16 rule=ceil", "mxfp4 offset=fp16 scale=f32"})
    for_all(
        text, 200, [](Random& random) { return random_values(random, integer_in(random, 1, 40)); },
        [&](const std::vector<float>& x) {
          const auto [lowest, highest] = std::minmax_element(x.begin(), x.end());
          const auto offset = float(round_by_hand(f16, Rounding::even, (*highest + *lowest) / 2));
          float amax = 0;
          for (const float v : x) amax = std::max(amax, std::fabs(v - offset));
          const Quantizer q = parse_quantizer(text);
          const BlockScale got = scale_in_one_row(x, q);
          const float scale =
              q.scale == ScaleKind::f32 ? amax / 6 : power_of_two_scale(block_rule(q), amax).scale;
          return got.offset == offset && (got.scale == scale || scale < 0x1p-126f);
        });
}

TEST(Block, TheMidpointOfZerosHasTheSignOfTheFirst) {
  const Quantizer q = parse_quantizer("mxint8 offset=fp16");
  EXPECT_TRUE(std::signbit(scale_in_one_row({-0.0f, 0.0f}, q).offset));
  EXPECT_FALSE(std::signbit(scale_in_one_row({0.0f, -0.0f}, q).offset));
}

TEST(Block, FourOverSixTakesWhatErrsLessAndSixOfEquals) {
  for (const char* text :
       {"nvfp4 4o6", "nvfp4 4o6 round=zero", "e2m1 block=16 scale=f32 4o6 round=stochastic"}) {
    const Quantizer q = parse_quantizer(text);
    const BlockRule rule = block_rule(q);
    int fours = 0;
    for_all(
        text, 500, [](Random& random) { return random_values(random, 16); },
        [&](const std::vector<float>& x) {
          float amax = 0;
          for (const float v : x) amax = std::max(amax, std::fabs(v));
          if (amax == 0) return true;
          const float encode = q.scale == ScaleKind::floating ? tensor_encode_scale(rule, 32) : 1;
          BlockScale candidates[2];
          double errors[2] = {};
          for (const int four : {0, 1}) {
            const float largest = four ? 4 : 6;
            BlockScale& s = candidates[four] = q.scale == ScaleKind::f32
                                                   ? f32_scale(rule, amax, largest)
                                                   : floating_scale(rule, amax, largest, encode);
            for (const float v : x) {
              const float scaled = v * s.inverse;
              const double error =
                  (round_by_hand(e2m1, Rounding::even, scaled) - double(scaled)) * double(s.scale);
              errors[four] += error * error;
            }
          }
          if (std::fabs(errors[0] - errors[1]) < 1e-5 * errors[0]) return true;  // f32 may see it otherwise
          const bool four = errors[1] < errors[0];
          fours += four;
          return scale_in_one_row(x, q, encode).scale == candidates[four].scale;
        });
    EXPECT_GT(fours, 50) << text;
    EXPECT_LT(fours, 450) << text;
    EXPECT_EQ(scale_in_one_row({12, 0}, q).scale, 2) << text;  // 12 is 6 * 2 and 4 * 3
  }
}

}  // namespace
}  // namespace mxtape
