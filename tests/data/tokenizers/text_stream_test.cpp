#include "data/tokenizers/text_stream.h"

#include <gtest/gtest.h>

#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

TEST(TextStream, GivesWholeCharactersAndAllBytes) {
  const Tokenizer bytes;
  const std::string text = "a\u00fc\u4e16\U0001f600\xff z";
  TextStream stream(bytes);
  std::string all;
  std::vector<std::string> given;
  for (const std::int32_t token : bytes.encode(text)) {
    given.push_back(stream.push(token));
    all += given.back();
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(given[1], "") << "half of U+00FC is held back";
  EXPECT_EQ(given[2], "\u00fc");
  EXPECT_EQ(given[9], "\U0001f600");
  EXPECT_EQ(given[10], "\xff") << "no byte completes it: it goes through";
}

TEST(TextStream, WhatStaysUnfinishedComesAtTheEnd) {
  const Tokenizer bytes;
  TextStream stream(bytes);
  EXPECT_EQ(stream.push(0xe4), "");
  EXPECT_EQ(stream.push(0xb8), "");
  EXPECT_EQ(stream.finish(), "\xe4\xb8");
  EXPECT_EQ(stream.push('a'), "a");
}

}  // namespace
}  // namespace mxtape
