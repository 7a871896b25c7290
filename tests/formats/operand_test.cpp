#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/codec/codec.h"
#include "formats/codec/mx_tensor.h"
#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

bool exact_in_bf16(float v) { return std::isnan(v) || to_f32(to_bf16(v)) == v; }

TEST(Operand, EveryCodeTimesEveryScaleIsABf16NumberInTheStatedRange) {
  // Lowest and highest exponent of the scale for which every code is exact: the smallest step must not fall
  // below 2^-133, the largest number not above 2^128 (2 - 2^-8).
  struct Range {
    ElementFormat element;
    int lowest, highest;
  };
  ElementFormat full_int8 = int8;
  full_int8.full_range = true;
  for (const auto& [f, lowest, highest] :
       {Range{e4m3, -124, 119}, Range{e5m2, -117, 112}, Range{e3m2, -127, 123}, Range{e2m3, -127, 125},
        Range{e2m1, -127, 125}, Range{int8, -127, 127}, Range{full_int8, -127, 126}, Range{e3m0, -127, 123},
        Range{int4, -127, 127}}) {
    const auto all_exact = [&, &f = f](int e) {
      for (std::uint32_t code = 0; code < 1u << f.bits(); ++code) {
        const float q = decode(f, code);
        if (f.is_integer() && !f.full_range && -q > f.max_finite()) continue;
        const double exact = std::ldexp(double(q), e);
        if (std::isfinite(exact) && double(to_f32(to_bf16(float(exact)))) != exact) return false;
      }
      return true;
    };
    for (int e = -127; e <= 127; ++e)
      EXPECT_EQ(all_exact(e), e >= lowest && e <= highest) << f.name() << " scale 2^" << e;
  }
}

TEST(Operand, EveryNvfp4ElementTimesItsBlockScaleIsABf16Number) {
  for (std::uint32_t element = 0; element < 16; ++element)
    for (std::uint32_t scale = 0; scale < 127; ++scale)
      EXPECT_TRUE(exact_in_bf16(decode(e2m1, element) * decode(e4m3, scale)));
}

TEST(Operand, ValuesOfQuantizersThatClaimBf16FitBf16) {
  for_all(
      "operand_dtype bf16: Q(x) is exact in bf16", 5000,
      [](Random& random) { return std::pair(random_quantizer(random), random_values(random, 96)); },
      [](const auto& input) {
        const auto& [q, x] = input;
        if (q.operand_dtype() != DType::bf16) return true;
        std::vector<float> y(x.size());
        quantize_reference(y.data(), x.data(), 3, 32, Axis::row, q, {});
        return std::all_of(y.begin(), y.end(), exact_in_bf16);
      });
}

TEST(Operand, WideValuesTakeF32) {
  for (const char* text :
       {"f32", "f16", "mxfp4 offset=fp16", "mxint8 scale=f32", "int10 scale=e8m0", "mxint8 scale=e4m3"})
    EXPECT_EQ(parse_quantizer(text).operand_dtype(), DType::f32) << text;
  for (const Preset& preset : presets)
    EXPECT_EQ(preset.quantizer.operand_dtype(), DType::bf16) << preset.name;
}

}  // namespace
}  // namespace mxtape
