#include "data/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"

namespace mxtape {
namespace {

using Kind = Tokenizer::Kind;

std::string data_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.code()), int(ExitCode::data));
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Tokenizer, CharactersAreCodePointsInOrderAndComeBack) {
  const std::string text = "b\u00e9a \u2713\U0001f600b";
  const auto tokenizer = Tokenizer::from_text(Kind::characters, text);
  EXPECT_EQ(tokenizer.size(), 6);
  EXPECT_EQ(tokenizer.encode(text), (std::vector<std::int32_t>{2, 3, 1, 0, 4, 5, 2}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, EveryCodePointSurvivesEncodeAndDecode) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    if (c < 0x80)
      text += char(c);
    else if (c < 0x800)
      text += {char(0xc0 | c >> 6), char(0x80 | (c & 63))};
    else if (c < 0x10000)
      text += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
    else
      text += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 63)), char(0x80 | (c >> 6 & 63)),
               char(0x80 | (c & 63))};
  }
  const auto tokenizer = Tokenizer::from_text(Kind::characters, text);
  const auto tokens = tokenizer.encode(text);
  EXPECT_EQ(std::int64_t(tokens.size()), tokenizer.size());
  EXPECT_EQ(tokenizer.decode(tokens), text);
}

TEST(Tokenizer, BytesTakeAnything) {
  std::string text;
  for (int b = 255; b >= 0; --b) text += char(b);
  const Tokenizer tokenizer;
  EXPECT_EQ(tokenizer.size(), 256);
  EXPECT_EQ(tokenizer.encode(text)[0], 255);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, JsonGivesTheSameTokenizer) {
  const auto tokenizer = Tokenizer::from_text(Kind::characters, "quote \" backslash \\ \n \u2713");
  const auto copy = Tokenizer::from_json(tokenizer.to_json());
  EXPECT_EQ(copy.to_json(), tokenizer.to_json());
  EXPECT_EQ(copy.encode("\\\"\u2713"), tokenizer.encode("\\\"\u2713"));
  EXPECT_EQ(Tokenizer::from_json(Tokenizer().to_json()).size(), 256);
  EXPECT_EQ(Tokenizer::of_ids(50257).to_json(), R"({"kind":"ids","vocabulary":50257})");
  EXPECT_EQ(Tokenizer::from_json(R"({"kind":"ids","vocabulary":50257})").size(), 50257);
}

TEST(Tokenizer, BrokenJsonIsRefused) {
  for (const char* text :
       {"", "{", "[]", R"({"kind":"bpe"})", R"({"kind":"characters"})",
        R"({"kind":"characters","pieces":["a","a"]})", R"({"kind":"characters","pieces":["ab"]})",
        R"({"kind":"characters","pieces":[""]})", R"({"kind":"characters","pieces":[1]})",
        R"({"kind":"ids"})", R"({"kind":"ids","vocabulary":0})", R"({"kind":"ids","vocabulary":2.5})",
        R"({"kind":"ids","vocabulary":"9"})", R"({"kind":"ids","vocabulary":2147483648})"})
    EXPECT_EQ(data_error([&] { Tokenizer::from_json(text); }).substr(0, 10), "tokenizer:") << text;
}

TEST(Tokenizer, IdsAreTheirOwnTextInPartsAndAsAWhole) {
  const auto tokenizer = Tokenizer::of_ids(50257);
  const std::vector<std::int32_t> ids{0, 50256, 7, 7}, first{0, 50256}, rest{7, 7};
  EXPECT_EQ(tokenizer.decode(ids), "0 50256 7 7 ");
  EXPECT_EQ(tokenizer.decode(first) + tokenizer.decode(rest), tokenizer.decode(ids));
  EXPECT_EQ(tokenizer.encode(tokenizer.decode(ids)), ids);
  EXPECT_EQ(tokenizer.encode("0, 50256,7\n\t7"), ids);
  EXPECT_TRUE(tokenizer.encode(" \n").empty());
}

TEST(Tokenizer, TextThatIsNoIdIsRefused) {
  const auto tokenizer = Tokenizer::of_ids(10);
  for (const std::string word : {"the", "-1", "+1", "10", "1.5", "0x1", "99999999999999999999"})
    EXPECT_EQ(data_error([&] { tokenizer.encode("3 " + word + " 4"); }),
              "'" + word + "' is no token id; want numbers from 0 to 9 with blanks between");
  EXPECT_EQ(data_error([&] { tokenizer.decode(std::vector<std::int32_t>{10}); }),
            "token 10 at position 0; the vocabulary has 10");
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedAtItsFirstByte) {
  // Lone tail, overlong '/', surrogate, above U+10FFFF, cut short, five-byte lead.
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x9c", "\xf8\x88\x80\x80\x80"})
    EXPECT_EQ(
        data_error([&] { Tokenizer::from_text(Kind::characters, std::string("ok ") + bad); }).substr(0, 6),
        "byte 3");
}

TEST(Tokenizer, UnknownCharactersAndTokensAreNamedWithTheirPosition) {
  const auto tokenizer = Tokenizer::from_text(Kind::characters, "abc");
  EXPECT_EQ(data_error([&] { tokenizer.encode("ab\u00e9"); }),
            "character '\u00e9' (U+00E9) at byte 2 is not in the vocabulary of 3 characters");
  EXPECT_EQ(data_error([&] {
              tokenizer.decode(std::vector<std::int32_t>{0, 3});
            }),
            "token 3 at position 1; the vocabulary has 3");
  EXPECT_EQ(data_error([&] { tokenizer.decode(std::vector<std::int32_t>{-1}); }),
            "token -1 at position 0; the vocabulary has 3");
}

}  // namespace
}  // namespace mxtape
