#include "formats/codec/codec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/block.h"
#include "tests/formats/grid_by_hand.h"
#include "tests/support/for_all.h"

namespace mxtape {
namespace {

using namespace test;

TEST(Codec, CodesCountUpThroughTheMagnitudesOfTheDefinition) {
  for (const ElementFormat& f : small_formats()) {
    const auto grid = magnitudes(f);
    for (std::size_t code = 0; code < grid.size(); ++code)
      ASSERT_EQ(decode(f, std::uint32_t(code)), grid[code]) << f.name() << " code " << code;
  }
}

TEST(Codec, EveryCodeOfEveryFormatComesBackFromItsValue) {
  auto formats = small_formats();
  formats.insert(formats.end(), {f16, bf16_format});
  for (const ElementFormat& f : formats)
    for (std::uint32_t code = 0; code < 1u << f.bits(); ++code) {
      const float value = decode(f, code);
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(decode(f, encode(f, value)))) << f.name() << " code " << code;
      else
        ASSERT_EQ(encode(f, value), code) << f.name() << " of " << value;
    }
}

TEST(Codec, WhatRoundingReturnsIsOnTheGridAndEncodesWithoutLoss) {
  for (const ElementFormat& f : small_formats()) {
    const BlockRule rule = block_rule(mx(f));
    for_all(
        "decode(encode(round(x))) == round(x)", 1000,
        [](Random& random) {
          return float_of(std::uint32_t(random() % 0x60000000u) | std::uint32_t(random() & 1) << 31);
        },
        [&](float x) {
          const float rounded = round_element(rule, x, 0);
          return decode(f, encode(f, rounded)) == rounded;
        });
  }
}

TEST(Codec, E8M0HoldsEveryExponentAndNaN) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(decode_exponent(std::uint8_t(code)), std::ldexp(1.0, code - 127));
    EXPECT_EQ(encode_exponent(decode_exponent(std::uint8_t(code))), code);
  }
  EXPECT_TRUE(std::isnan(decode_exponent(255)));
  EXPECT_EQ(encode_exponent(NAN), 255);
  EXPECT_EQ(decode_exponent(0, 5), 0x1p-15f);
}

TEST(Codec, TwoFp4FillAByteLowNibbleFirstAndFourFp6ThreeBytes) {
  EXPECT_EQ(pack_bits(std::vector<std::uint32_t>{0x1, 0xf, 0x7}, 4), (std::vector<std::uint8_t>{0xf1, 0x07}));
  // 0b000001, 0b100000, 0b111111, 0b101010 from the lowest bit up.
  EXPECT_EQ(pack_bits(std::vector<std::uint32_t>{0x01, 0x20, 0x3f, 0x2a}, 6),
            (std::vector<std::uint8_t>{0x01, 0xf8, 0xab}));
}

TEST(Codec, UpToSeventyCodesOfEveryWidthComeBack) {
  Random random(1);
  for (int bits = 1; bits <= 32; ++bits)
    for (std::size_t count = 0; count <= 70; ++count) {
      std::vector<std::uint32_t> codes(count);
      for (auto& code : codes) code = std::uint32_t(random()) >> (32 - bits);
      ASSERT_EQ(unpack_bits(pack_bits(codes, bits), bits, std::int64_t(count)), codes)
          << count << " of " << bits;
    }
}

}  // namespace
}  // namespace mxtape
