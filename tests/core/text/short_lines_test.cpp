#include "core/text/short_lines.h"

#include <gtest/gtest.h>

namespace mxtape {
namespace {

TEST(ShortLines, WhatIsShortStaysAsItIs) {
  for (const std::string text : {"", "\n", "a\nb\n", "\n\n a"}) EXPECT_EQ(with_short_lines(text), text);
  const std::string line(2000, 'x');
  EXPECT_EQ(with_short_lines(line + "\n" + line), line + "\n" + line);
}

TEST(ShortLines, TheMiddleOfALongLineIsLeftOutAndCounted) {
  const std::string text = "first\nlayers = '" + std::string(10'000, 'x') + "'; want a pattern\nlast";
  const std::string cut = with_short_lines(text);
  EXPECT_TRUE(cut.starts_with("first\nlayers = 'xxx"));
  EXPECT_TRUE(cut.ends_with("xxx'; want a pattern\nlast"));
  EXPECT_NE(cut.find(" ... (8527 bytes more) ... "), std::string::npos) << cut;
}

TEST(ShortLines, NoCharacterIsCutInTwo) {
  for (std::size_t shift = 0; shift < 3; ++shift) {
    std::string text(shift, 'a');
    for (int i = 0; i < 2000; ++i) text += "\xe2\x82\xac";
    const std::string cut = with_short_lines(text);
    const auto gap = cut.find(" ... (");
    EXPECT_EQ((gap - shift) % 3, 0u);
    EXPECT_TRUE(cut.substr(cut.rfind(" ... ") + 5).starts_with("\xe2\x82\xac"));
  }
}

}  // namespace
}  // namespace mxtape
