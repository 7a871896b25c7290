// Charsmaps of SentencePiece models, also such as somebody made to break their reader.
#include <gtest/gtest.h>

#include "data/tokenizers/tokenizer.h"
#include "tests/data/tokenizers/sentencepiece_model.h"
#include "tests/data/tokenizers/told.h"

namespace mxtape {
namespace {

using namespace test::sentencepiece;
using test::says, test::told;
using Ids = std::vector<std::int32_t>;

Tokenizer with_charsmap(const std::vector<Rule>& rules, int type, const std::string& more = "") {
  return Tokenizer::from_sentencepiece(
      piece("<unk>", 0, 2) + piece("a", -1) + piece("b", -1) + trainer(type) + more +
      text_field(3, text_field(2, charsmap(rules)) + number_field(3, 0) + number_field(4, 0)));
}

TEST(Charsmap, MapsWhatItsRulesSay) {
  const auto tokenizer = with_charsmap({{"\u00e9", "a"}, {"\u00e9\u00e9", "ab"}, {"xy", "b"}}, 1);
  EXPECT_EQ(tokenizer.encode("\u00e9"), (Ids{1}));
  EXPECT_EQ(tokenizer.encode("\u00e9\u00e9\u00e9"), (Ids{1, 2, 1})) << "the longest rule first";
  EXPECT_EQ(tokenizer.encode("xya"), (Ids{2, 1}));
}

TEST(Charsmap, ARuleThatEndsInsideACharacterIsRefusedWhereItIsMet) {
  for (const int type : {1, 2}) {
    const auto tokenizer = with_charsmap({{"\xc3", "b"}}, type);
    EXPECT_EQ(tokenizer.encode("a"), (Ids{1}));
    EXPECT_TRUE(says(told([&] { tokenizer.encode("\u00e9"); }), "rule for '<0xC3>' ends inside a character"));
  }
}

TEST(Charsmap, AReplacementThatBeginsInsideACharacterIsRefusedWhereItIsMet) {
  for (const int type : {1, 2}) {
    const auto tokenizer = with_charsmap({{"x", "\u00e9", 1}}, type);
    EXPECT_TRUE(
        says(told([&] { tokenizer.encode("x"); }), "for 'x' writes a text that begins inside a character"));
  }
}

TEST(Charsmap, RulesMayNotWriteWithoutBound) {
  const auto longer = with_charsmap({{"x", std::string(2000, 'a')}}, 1);
  EXPECT_TRUE(says(told([&] { longer.encode("x"); }), "writes 2000 bytes; want at most 1024"));
  const auto many = with_charsmap({{"x", std::string(1000, 'a')}}, 1);
  EXPECT_EQ(many.encode("x").size(), 1000u);
  EXPECT_TRUE(says(told([&] { many.encode(std::string(1000, 'x')); }), "makes more than 65024 bytes"));
  const auto surface = [] {
    with_charsmap({{"x", "a"}}, 1, text_field(2, text_field(44, std::string(2000, '?'))));
  };
  EXPECT_TRUE(says(told(surface), "unk_surface has 2000 bytes; want at most 1024"));
}

}  // namespace
}  // namespace mxtape
