#include "train/sampling/token_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tensors.h"

namespace mxtape {
namespace {

/// How often each token is drawn over a fine grid of uniform numbers.
std::vector<double> frequencies(std::span<const float> logits, const TokenFilter& filter) {
  constexpr int draws = 4096;
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    counts[std::size_t(draw_token(logits, filter, (float(i) + 0.5f) / draws))] += 1.0 / draws;
  return counts;
}

const std::vector<float> logits{0, 2, -1, 1, 2};

using Tokens = std::vector<std::int32_t>;

TEST(DrawToken, FollowsTheSoftmaxOfTheLogitsAtTheTemperature) {
  for (double temperature : {0.5, 1.0, 3.0}) {
    double sum = 0;
    for (float logit : logits) sum += std::exp(double(logit) / temperature);
    const auto got = frequencies(logits, {.temperature = temperature});
    // Each token owns one interval of [0, 1): a grid of 4096 counts it to within two points.
    for (std::size_t i = 0; i < logits.size(); ++i)
      EXPECT_NEAR(got[i], std::exp(double(logits[i]) / temperature) / sum, 2.0 / 4096) << i;
  }
}

TEST(DrawToken, TakesTheLikeliestAtTemperatureZeroAndTheSmallerOfEquals) {
  for (float uniform : {0.0f, 0.5f, 0.999f}) EXPECT_EQ(draw_token(logits, {.temperature = 0}, uniform), 1);
}

TEST(DrawToken, NeverLeavesTheCandidates) {
  const auto two = frequencies(logits, {.top_k = 2});
  EXPECT_EQ(two[0] + two[2] + two[3], 0);
  EXPECT_NEAR(two[1], 0.5, 2.0 / 4096);
  EXPECT_EQ(frequencies(logits, {.top_k = 99, .top_p = 1 - 1e-9}), frequencies(logits, {.top_p = 1 - 1e-9}))
      << "more than there are means all";
  const TokenFilter all{.temperature = 0.7, .top_k = 4, .top_p = 0.9, .min_p = 0.3};
  const Candidates kept = candidates(logits, all);
  const auto drawn = frequencies(logits, all);
  double sum = 0;
  for (std::size_t i = 0; i < kept.tokens.size(); ++i) {
    EXPECT_NEAR(drawn[std::size_t(kept.tokens[i])], kept.probabilities[i], 2.0 / 4096);
    sum += drawn[std::size_t(kept.tokens[i])];
  }
  EXPECT_DOUBLE_EQ(sum, 1);
}

TEST(DrawToken, StaysInRangeAtTheEndsOfTheUniformNumbers) {
  const float last = 1 - 0x1p-24f;
  EXPECT_EQ(draw_token(std::vector<float>{0, 0, 0}, {}, 0), 0);
  EXPECT_EQ(draw_token(std::vector<float>{0, 0, 0}, {}, last), 2);
  EXPECT_EQ(draw_token(std::vector<float>{0, 0, 0}, {.min_p = 0.5}, last), 2);
  EXPECT_EQ(draw_token(std::vector<float>{1, 3, 2}, {.min_p = 2}, last), 1) << "the likeliest stays";
  EXPECT_EQ(draw_token(std::vector<float>{-1e30f, 1e30f}, {}, last), 1) << "no overflow";
}

// Probabilities 1/2, 1/4, 1/8, 1/8 of tokens 2, 0, 1, 3.
const std::vector<float> halves{float(std::log(2)), 0, float(std::log(4)), 0};

TEST(Candidates, AreTheLikeliestFirstAndTheSmallerOfEquals) {
  EXPECT_EQ(candidates(halves, {}).tokens, (Tokens{2, 0, 1, 3}));
  EXPECT_EQ(candidates(halves, {.top_k = 3}).tokens, (Tokens{2, 0, 1}));
  EXPECT_EQ(candidates(halves, {.temperature = 0, .top_k = 3}).tokens, (Tokens{2}));
}

TEST(Candidates, TopPKeepsTheFewestThatReachIt) {
  for (const auto& [p, count] : {std::pair{0.0, 1}, {0.4, 1}, {0.6, 2}, {0.8, 3}, {0.9, 4}, {1.0, 4}})
    EXPECT_EQ(candidates(halves, {.top_p = p}).tokens.size(), std::size_t(count)) << p;
}

TEST(Candidates, MinPIsAShareOfTheLikeliest) {
  for (const auto& [p, count] : {std::pair{0.0, 4}, {0.2, 4}, {0.3, 2}, {0.6, 1}, {1.0, 1}})
    EXPECT_EQ(candidates(halves, {.min_p = p}).tokens.size(), std::size_t(count)) << p;
}

// Of tokens 2, 0, 1 top_k leaves 4/7, 2/7, 1/7. Of these 6/7 reach 0.8, of all four 3/4 would not.
TEST(Candidates, FiltersFollowEachOtherOnWhatIsLeft) {
  const Candidates kept = candidates(halves, {.top_k = 3, .top_p = 0.8});
  EXPECT_EQ(kept.tokens, (Tokens{2, 0}));
  EXPECT_NEAR(kept.probabilities[0], 2.0 / 3, 1e-7);  // logits are logarithms rounded to f32
  EXPECT_EQ(candidates(halves, {.top_p = 0.8}).tokens.size(), 3u);
  // At temperature 1/2 probabilities are as 16 : 4 : 1 : 1.
  EXPECT_EQ(candidates(halves, {.temperature = 0.5, .min_p = 0.2}).tokens, (Tokens{2, 0}));
}

TEST(Candidates, OfALargeVocabularyAreThoseOfAFullSort) {
  const auto many = test::normals(5000, 1);
  std::vector<std::int32_t> order(many.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = std::int32_t(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return many[std::size_t(a)] > many[std::size_t(b)];
  });
  double all = 0, sum = 0;
  for (const float logit : many) all += std::exp(double(logit));
  std::size_t count = 0;
  while (sum < 0.9 * all) sum += std::exp(double(many[std::size_t(order[count++])]));
  const Candidates kept = candidates(many, {.top_p = 0.9});
  ASSERT_EQ(kept.tokens.size(), count);
  EXPECT_TRUE(std::equal(kept.tokens.begin(), kept.tokens.end(), order.begin()));
  double one = 0;
  for (const double p : kept.probabilities) one += p;
  EXPECT_NEAR(one, 1, 1e-12);
}

}  // namespace
}  // namespace mxtape
