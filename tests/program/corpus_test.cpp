#include "program/corpus/corpus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "core/error.h"
#include "core/parallel.h"
#include "program/corpus/words.h"

namespace mxtape::tales {
namespace {

std::string many_tales(std::uint64_t seed, std::uint32_t count) {
  std::string text;
  for (std::uint32_t tale = 0; tale < count; ++tale) text += write_tale(seed, tale).text;
  return text;
}

std::string refusal_of(const std::string& text) {
  try {
    score(text);
  } catch (const Error& error) {
    EXPECT_EQ(int(error.code()), int(ExitCode::data));
    return error.what();
  }
  return "nothing was thrown";
}

/// Generation itself throws if any choice offers options that begin alike, so 10,000 tales are also some five
/// million checks that a text has one derivation.
TEST(Corpus, TenThousandTalesReadBackScoreExactlyWhatWasDrawn) {
  std::set<std::string> texts;
  for (std::uint32_t tale = 0; tale < 10'000; ++tale) {
    const auto written = write_tale(1, tale);
    const auto read = score(written.text);
    ASSERT_EQ(read.nats, written.nats) << written.text;
    ASSERT_EQ(read.tales, 1);
    ASSERT_EQ(written.text.find_first_not_of(alphabet), std::string::npos) << written.text;
    ASSERT_TRUE(texts.insert(written.text).second) << "twice: " << written.text;
  }
}

TEST(Corpus, DependsOnTheSeedAlone) {
  EXPECT_EQ(write_tale(1, 7).text, write_tale(1, 7).text);
  EXPECT_NE(write_tale(1, 7).text, write_tale(2, 7).text);
  EXPECT_NE(write_tale(1, 7).text, write_tale(1u | std::uint64_t{1} << 32, 7).text);
  const auto progress = [](std::int64_t) {};
  const int before = threads();
  set_threads(1);
  const auto alone = write_corpus(5, {.tales = 100}, 0.1, progress);
  set_threads(2);
  const auto together = write_corpus(5, {.tales = 100}, 0.1, progress);
  set_threads(before);
  EXPECT_EQ(alone.text, together.text);
  EXPECT_EQ(alone.validation.nats, together.validation.nats);
  EXPECT_EQ(alone.text, many_tales(5, 100));
}

TEST(Corpus, TheFileCarriesTheExactScoreOfItsValidationSplit) {
  const auto corpus = write_corpus(2, {.characters = 200'000}, 0.2, [](std::int64_t) {});
  EXPECT_GE(corpus.all.characters, 200'000);
  const auto file = to_token_file(corpus, "test");
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < file.validation.count(); ++i) tokens.push_back(file.validation[i]);
  const auto read = score(file.tokenizer.decode(tokens));
  EXPECT_EQ(*file.floor, read.nats / double(file.validation.count()));
  EXPECT_EQ(read.tales, corpus.validation.tales);
  EXPECT_EQ(file.train.count() + file.validation.count(), corpus.all.characters);
  EXPECT_EQ(file.tokenizer.size(), std::int64_t(alphabet.size()));
}

TEST(Corpus, EntropyEstimatesOfTwoSeedsAgreeWithinTheirErrors) {
  const auto progress = [](std::int64_t) {};
  const auto one = write_corpus(11, {.tales = 2000}, 0.5, progress);
  const auto two = write_corpus(12, {.tales = 2000}, 0.5, progress);
  const double error = std::hypot(one.entropy.standard_error, two.entropy.standard_error);
  EXPECT_LT(std::abs(one.entropy.value - two.entropy.value), 5 * error);
  EXPECT_LT(error, 0.005) << "the estimate is of use";
  // The validation half is part of the estimate: their difference has about the error of one estimate.
  EXPECT_LT(std::abs(one.validation.per_character() - one.entropy.value), 5 * one.entropy.standard_error);
  const auto four = write_corpus(11, {.tales = 8000}, 0.5, progress);
  // A fourfold sample halves the error; the error's own error is 1 / sqrt(2 * 2000), 1.6 %.
  EXPECT_NEAR(four.entropy.standard_error / one.entropy.standard_error, 0.5, 0.05);
}

TEST(Corpus, ATextThatTheGrammarCannotProduceIsRefusedAtItsFirstWrongCharacter) {
  auto text = write_tale(1, 0).text;
  const auto place = text.find("Once there was");
  auto altered = text;
  altered[place + 5] = 'T';
  const auto start = "character " + std::to_string(place + 5) + " (line 2): found 'There was";
  EXPECT_EQ(refusal_of(altered).substr(0, start.size()), start);
  EXPECT_NE(refusal_of(text.substr(0, text.size() - 1)).find("found 'the end of the text'"), std::string::npos);
  EXPECT_EQ(refusal_of(""), "the text is empty, want at least one tale");
  EXPECT_TRUE(refusal_of("Xaver and the").starts_with("character 0 (line 1): found 'Xaver and th'"));
}

TEST(Corpus, AWrongLetterAnywhereInATaleIsRefused) {
  const auto tale = write_tale(1, 3);
  for (std::size_t i = 0; i < tale.text.size(); ++i) {
    auto altered = tale.text;
    altered[i] =
        altered[i] == 'q' ? 'z' : 'q';  // no word of the grammar has a 'q' where another letter would do
    EXPECT_NE(refusal_of(altered), "nothing was thrown") << i;
  }
}

/// Independent of the grammar: patterns over the finished text.
TEST(Corpus, NumberGenderAndArticlesAgree) {
  const auto text = many_tales(1, 400);
  const auto absent = [&](const char* pattern) {
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, std::regex(pattern))) << pattern << ": " << found.str();
  };
  const auto present = [&](const char* pattern) {
    EXPECT_TRUE(std::regex_search(text, std::regex(pattern))) << pattern;
  };
  absent("\\b([Hh]e|[Ss]he|[Ii]t|[Ww]ho lived \\w+) were ");
  absent("\\b[Tt]hey was ");
  present("\\b[Tt]hey were ");
  absent("\\b[Hh]e (closed|packed|told|forgot|counted|washed|opened|lost|kept|hid) (her|its|their) ");
  absent("\\b[Ss]he (closed|packed|told|forgot|counted|washed|opened|lost|kept|hid) (his|its|their) ");
  absent("\\b[Ii]t (closed|packed|told|forgot|counted|washed|opened|lost|kept|hid) (his|her|their) ");
  absent("\\b[Tt]hey (closed|packed|told|forgot|counted|washed|opened|lost|kept|hid) (his|her|its) ");
  present("\\b[Tt]hey (closed|packed|told|forgot|counted|washed|opened|lost|kept|hid) their ");
  absent("\\ba [aeiou]");
  absent("\\ban [^aeiou]");
  absent("\\bThe \\w+s (sleeps|sings|waits|dances|listens|dreams)\\b");
  absent("\\bThe (fox|wolf|owl|king|moon|wind|queen|bear) (sleep|sing|wait|dance|listen|dream)\\b");
  absent("The (foxes|wolves|owls) that lives ");
  present("The \\w+s that live ");
}

TEST(Corpus, NamesThatReturnWereIntroducedBefore) {
  for (std::uint32_t number = 0; number < 300; ++number) {
    const auto tale = write_tale(4, number).text;
    std::set<std::string> known{tale.substr(0, tale.find(' '))};
    std::set<std::string> names;
    for (const auto* table : {&words().names, &words().beast_names})
      for (const auto& option : table->options()) names.insert(option.text);
    const std::regex word("(named )?([A-Z][a-z]+)");
    for (std::sregex_iterator at(tale.begin(), tale.end(), word), end; at != end; ++at) {
      if ((*at)[1].matched) known.insert((*at)[2]);
      EXPECT_TRUE(!names.count((*at)[2]) || known.count((*at)[2])) << (*at)[2] << " in " << tale;
    }
  }
}

/// Follows the treasure through narration alone: who asks learns the truth from whoever tells it.
TEST(Corpus, WhatWitnessesTellOfTheTreasureIsTrue) {
  int told = 0;
  for (std::uint32_t number = 0; number < 400; ++number) {
    const auto tale = write_tale(6, number).text;
    std::smatch taken;
    const std::regex confession(
        "\"I have it,\" said ([A-Z][a-z]+)\\. [^\n]{0,200}?\"([A-Z][a-z]+) has it,\"");
    if (!std::regex_search(tale, taken, confession)) continue;
    const std::string between = taken.str();
    if (between.find(" took ") != std::string::npos || between.find(" gave ") != std::string::npos) continue;
    EXPECT_EQ(taken[1], taken[2]) << between;
    ++told;
  }
  EXPECT_GT(told, 0);
}

}  // namespace
}  // namespace mxtape::tales
