#include "program/corpus/chooser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace mxtape::tales {
namespace {

TEST(Chooser, OptionsThatCannotBeToldApartAreRefused) {
  EXPECT_THROW(Table({{"fox"}, {"foxes"}}), Error);
  EXPECT_THROW(Table({{"fox"}, {"fox"}}), Error);
  EXPECT_THROW(Table({{""}, {"fox"}}), Error);
  const Table foxes({{"fox "}, {"foxes "}});
  Writer writer(1, 0);
  EXPECT_THROW(writer.pick(foxes, std::vector<Option>{{"foxes run"}}), Error);
  EXPECT_THROW(writer.pick(std::vector<Option>{{"a"}, {"ab"}}), Error);
}

TEST(Chooser, OptionsAreDrawnAsOftenAsTheirWeightsSay) {
  const Table table({{"a", 1}, {"b", 5}});
  const std::vector<Option> more{{"c", 10}};
  std::string text;
  constexpr int draws = 160'000;
  for (int tale = 0; tale < draws; ++tale) {
    Writer writer(3, std::uint32_t(tale));
    writer.pick(table, more);
    text += writer.text();
  }
  for (const auto& [letter, share] : {std::pair('a', 1 / 16.), {'b', 5 / 16.}, {'c', 10 / 16.}}) {
    const auto count = double(std::count(text.begin(), text.end(), letter));
    // Binomial: five standard deviations.
    EXPECT_NEAR(count, draws * share, 5 * std::sqrt(draws * share * (1 - share))) << letter;
  }
}

/// x+ of geometric length up to 3, then a mark: 2 + 4 + 8 + 16 texts.
void toy_grammar(Chooser& chooser) {
  const Table letters({{"x", 1}, {"y", 2}});
  chooser.pick(letters);
  for (int n = 1; n < 4; ++n) {
    chooser.say("-");
    if (chooser.pick(letters, std::vector<Option>{{".", 4, 1}}).tag == 1) return;
  }
}

TEST(Chooser, ProbabilitiesOfAllTextsAddUpToOne) {
  std::vector<std::string> texts;
  const auto grow = [&](const auto& self, const std::string& text, int n) -> void {
    if (n == 4) return texts.push_back(text);
    texts.push_back(text + "-.");
    for (const char* letter : {"x", "y"}) self(self, text + "-" + letter, n + 1);
  };
  for (const char* letter : {"x", "y"}) grow(grow, letter, 1);
  double sum = 0;
  for (const auto& text : texts) {
    Reader reader(text, 0);
    toy_grammar(reader);
    EXPECT_EQ(reader.position(), text.size());
    sum += std::exp(-reader.nats());
  }
  // 30 texts of at most 4 choices: each log, sum and exponential errs by a few units of 2^-53.
  EXPECT_NEAR(sum, 1, 30 * 16 * 0x1p-53);
}

TEST(Chooser, NatsAreTheSumOverChoicesOfTheLogOfOneOverTheShare) {
  Reader reader("x-y-.", 0);
  toy_grammar(reader);
  EXPECT_DOUBLE_EQ(reader.nats(), std::log(3. / 1) + std::log(7. / 2) + std::log(7. / 4));
}

}  // namespace
}  // namespace mxtape::tales
