#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "data/tokenizers/text/regex.h"
#include "data/tokenizers/text/scanners.h"
#include "data/tokenizers/text/splitter.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using Words = std::vector<std::string>;

Words words_of(const Splitter& splitter, std::string_view text) {
  Words words;
  splitter.for_each_word(text, true, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}
Words words_of(const std::string& pattern, std::string_view text) {
  return words_of(Splitter({{.kind = SplitStep::Kind::pattern, .text = pattern}}), text);
}

/// Signs that patterns look at, and code points of anywhere.
std::string random_text(std::mt19937& random) {
  constexpr std::u32string_view signs =
      U"  \n\r\t''sStTrReEvVmMlLdDaz019,.-!\u017f\u00a0\u0085\u2028\u00e9\u0301\u4e2d\u0661\u2163\U0001f600";
  std::string text;
  for (auto n = random() % 30; n > 0; --n) {
    char32_t c = random() % 8 ? signs[random() % signs.size()] : char32_t(random() % 0x110000);
    if (c >= 0xd800 && c < 0xe000) c = U'x';
    append_utf8(text, c);
  }
  return text;
}

TEST(Scanners, CutAsTheirPatternsDo) {
  for (const char* name : {"gpt2", "llama3", "qwen2"}) {
    const KnownPattern& known = *known_pattern_named(name);
    const Regex regex(known.pattern);
    std::mt19937 random(7);
    for (int i = 0; i < 20000; ++i) {
      const std::string text = random_text(random);
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = known.scanner(text, at);
        ASSERT_EQ(end, regex.match(text, at))
            << name << " " << shown_text(text) << " at " << at << ", text " << i;
        at = end;
      }
    }
  }
}

TEST(Regex, TakesTheFirstAlternativeThatFits) {
  EXPECT_EQ(words_of("a|ab|.", "abc"), (Words{"a", "b", "c"}));
  EXPECT_EQ(words_of("ab|a|.", "abac"), (Words{"ab", "a", "c"}));
  EXPECT_EQ(words_of("(?:a|b)+c|.", "abacab"), (Words{"abac", "a", "b"}));
  EXPECT_EQ(words_of("[^a-c]+|[a-c]", "xyaz"), (Words{"xy", "a", "z"}));
}

TEST(Regex, RepeatsAsOnigurumaDoes) {
  EXPECT_EQ(words_of("a{2,3}|.", "aaaaa"), (Words{"aaa", "aa"}));
  EXPECT_EQ(words_of("\\p{N}{1,3}+|.", "1234567a"), (Words{"1234567", "a"}))
      << "{1,3}+ repeats, it is not possessive";
  EXPECT_EQ(words_of("a++a|.", "aaa"), (Words{"a", "a", "a"}))
      << "a possessive repetition gives nothing back";
  EXPECT_EQ(words_of("a+a|.", "aaa"), (Words{"aaa"}));
  EXPECT_EQ(words_of("(?:ab)*+ab|.", "abab"), (Words{"a", "b", "a", "b"}));
  EXPECT_EQ(words_of("a{,2}b|.", "aab"), (Words{"aab"}));
}

TEST(Regex, LooksAheadAndKnowsLineEnds) {
  EXPECT_EQ(words_of("\\s+(?!\\S)|\\s|\\S+", "a   b"), (Words{"a", "  ", " ", "b"}));
  EXPECT_EQ(words_of("a(?=b)|.", "abac"), (Words{"a", "b", "a", "c"}));
  EXPECT_EQ(words_of("x+$|x|\\n", "xx\nxx"), (Words{"xx", "\n", "xx"}));
}

TEST(Regex, CaseDoesNotMatterWherePatternsSaySo) {
  EXPECT_EQ(words_of("(?i:'s|k)|[^']", "'S'\u017fK\u212ak"), (Words{"'S", "'\u017f", "K", "\u212a", "k"}));
}

TEST(Regex, WhatItDoesNotKnowIsRefusedWithItsColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"(a", "column 3"},      {"a)", "column 2"},     {"(a)\\1", "column 5"},   {"(?<=a)b", "column 2"},
      {"a*?", "column 3"},     {"[a", "column 3"},     {"\\p{Han}", "column 4"}, {"(?i:\u00e9)", "column 5"},
      {"(?i:st)", "column 6"}, {"^a", "column 1"},     {"a{3,2}", "column 7"},   {"(a?)*", "column 6"},
      {"[[a]]", "column 2"},   {"\\w", "column 2"},    {"a{2000}", "column"},    {"*a", "column 1"},
      {"a$?", "column 4"},     {"(?=a)*", "column 7"}, {"(?:b|$)?", "column 9"}};
  for (const auto& [pattern, column] : cases) {
    std::string told = "opened";
    try {
      const Regex regex(pattern);
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_NE(told.find(column), told.npos) << pattern << ": " << told;
  }
}

TEST(Regex, AMatchThatNeverEndsIsAnError) {
  const Regex regex("(?:a+)+b");
  EXPECT_THROW(regex.match(std::string(40, 'a'), 0), Error);
  EXPECT_EQ(Regex("(?:a|b)+").match(std::string(1 << 20, 'a'), 0), std::size_t(1) << 20) << "no recursion";
}

TEST(Regex, AnEmptyGroupAtTheBeginningMayBeRepeated) {
  EXPECT_EQ(Regex("(?:)?a").match("a", 0), 1u);
  EXPECT_EQ(Regex("(?:)?").match("a", 0), 0u);
}

TEST(Regex, AClassHasAtMost256Parts) {
  std::string parts;
  for (int i = 0; i < 256; ++i) parts += "\\d";
  EXPECT_EQ(Regex("[" + parts + "]").match("7", 0), 1u);
  EXPECT_THROW(Regex("[" + parts + "a]"), Error);
}

TEST(Splitter, JoinsDelimitersAsItIsTold) {
  using Behaviour = SplitStep::Behaviour;
  const auto cut = [](Behaviour behaviour, bool invert = false) {
    return words_of(
        Splitter({{.kind = SplitStep::Kind::literal, .text = "-", .behaviour = behaviour, .invert = invert}}),
        "a--b-c");
  };
  EXPECT_EQ(cut(Behaviour::isolated), (Words{"a", "-", "-", "b", "-", "c"}));
  EXPECT_EQ(cut(Behaviour::removed), (Words{"a", "b", "c"}));
  EXPECT_EQ(cut(Behaviour::removed, true), (Words{"-", "-", "-"}));
  EXPECT_EQ(cut(Behaviour::with_previous), (Words{"a-", "-", "b-", "c"}));
  EXPECT_EQ(cut(Behaviour::with_next), (Words{"a", "-", "-b", "-c"}));
  EXPECT_EQ(cut(Behaviour::contiguous), (Words{"a", "--", "b", "-", "c"}));
}

// The words are those of Hugging Face's tokenizers 0.23.3.
TEST(Splitter, AMatchWithoutACharacterCutsToo) {
  using Behaviour = SplitStep::Behaviour;
  const auto cut = [](const char* pattern, const char* text, Behaviour behaviour = Behaviour::isolated,
                      bool invert = false) {
    return words_of(
        Splitter(
            {{.kind = SplitStep::Kind::pattern, .text = pattern, .behaviour = behaviour, .invert = invert}}),
        text);
  };
  EXPECT_EQ(cut("(?=(\\d{3})+(?!\\d))", "x1234567"), (Words{"x1", "234", "567"})) << "digits in threes";
  EXPECT_EQ(cut("a*", "abCdEaa"), (Words{"a", "b", "C", "d", "E", "aa"}));
  EXPECT_EQ(cut("a*", "abCdEaa", Behaviour::removed, true), (Words{"a", "aa"}));
  const char* const upper = "(?=\\p{Lu})|b";
  EXPECT_EQ(cut(upper, "abCdEaa"), (Words{"a", "b", "Cd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::removed), (Words{"a", "Cd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::with_previous), (Words{"ab", "Cd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::with_previous, true), (Words{"a", "bCd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::with_next), (Words{"a", "bCd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::with_next, true), (Words{"ab", "Cd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::contiguous), (Words{"a", "b", "Cd", "Eaa"}));
  EXPECT_EQ(cut(upper, "abCdEaa", Behaviour::contiguous, true), (Words{"a", "b", "Cd", "Eaa"}));
}

TEST(Splitter, DigitsAndBlankMarksAreStepsOfTheirOwn) {
  const Splitter digits({{.kind = SplitStep::Kind::digits, .one_by_one = true}});
  EXPECT_EQ(words_of(digits, "a12b"), (Words{"a", "1", "2", "b"}));
  const Splitter marks(
      {{.kind = SplitStep::Kind::metaspace, .text = "_", .prepend = SplitStep::Prepend::first}});
  EXPECT_EQ(words_of(marks, "a  b"), (Words{"_a", "_", "_b"}));
}

}  // namespace
}  // namespace mxtape
