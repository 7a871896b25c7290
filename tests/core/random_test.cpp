#include "core/random.h"

#include <gtest/gtest.h>

namespace mxtape {
namespace {

TEST(Philox, ReproducesTheKnownAnswersOfRandom123) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, f, f), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(DrawKey, AnElementsBitsDoNotDependOnWhereTheTensorStarts) {
  DrawKey whole{.seed = 7, .purpose = Purpose::rounding, .tensor_id = 3, .step = 9};
  DrawKey part = whole;
  part.first_element = 1000;
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(whole.bits16(1000 + i), part.bits16(i));
    EXPECT_EQ(whole.bits32(1000 + i), part.bits32(i));
  }
}

TEST(DrawKey, EightElementsShareACallInAscendingOrder) {
  const DrawKey key{.seed = 0x123456789abcdef0, .purpose = Purpose::rounding, .tensor_id = 5, .step = 2};
  const auto words = philox({1, 1u << 16, 5, 2}, 0x9abcdef0, 0x12345678);  // elements 8 to 15
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(key.bits16(8 + i), words[i / 2] >> (16 * (i % 2)) & 0xffff);
}

}  // namespace
}  // namespace mxtape
