#include "train/sampling/sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::TinyRun;

/// How often each token is drawn over a fine grid of uniform numbers.
std::vector<double> frequencies(std::span<const float> logits, float temperature, std::int64_t top_k) {
  constexpr int draws = 4096;
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    counts[std::size_t(draw_token(logits, temperature, top_k, (float(i) + 0.5f) / draws))] += 1.0 / draws;
  return counts;
}

const std::vector<float> logits{0, 2, -1, 1, 2};

TEST(DrawToken, FollowsTheSoftmaxOfTheLogitsAtTheTemperature) {
  for (float temperature : {0.5f, 1.0f, 3.0f}) {
    double sum = 0;
    for (float logit : logits) sum += std::exp(double(logit) / double(temperature));
    const auto got = frequencies(logits, temperature, 0);
    // Each token owns one interval of [0, 1): a grid of 4096 counts it to within two points.
    for (std::size_t i = 0; i < logits.size(); ++i)
      EXPECT_NEAR(got[i], std::exp(double(logits[i]) / double(temperature)) / sum, 2.0 / 4096) << i;
  }
}

TEST(DrawToken, TakesTheLikeliestAtTemperatureZeroAndTheSmallerOfEquals) {
  for (float uniform : {0.0f, 0.5f, 0.999f}) EXPECT_EQ(draw_token(logits, 0, 0, uniform), 1);
}

TEST(DrawToken, NeverLeavesTheTopK) {
  const auto two = frequencies(logits, 1, 2);
  EXPECT_EQ(two[0] + two[2] + two[3], 0);
  EXPECT_NEAR(two[1], 0.5, 2.0 / 4096);
  EXPECT_EQ(frequencies(logits, 1, 99), frequencies(logits, 1, 0)) << "more than there are means all";
}

TEST(DrawToken, StaysInRangeAtTheEndsOfTheUniformNumbers) {
  const float last = 1 - 0x1p-24f;
  EXPECT_EQ(draw_token(std::vector<float>{0, 0, 0}, 1, 0, 0), 0);
  EXPECT_EQ(draw_token(std::vector<float>{0, 0, 0}, 1, 0, last), 2);
  EXPECT_EQ(draw_token(std::vector<float>{-1e30f, 1e30f}, 1, 0, last), 1) << "no overflow";
}

/// The likeliest continuation, token by token.
std::vector<std::int32_t> greedy(TinyRun& run, std::span<const std::int32_t> prompt, std::int64_t tokens) {
  return sample(*run.backend, run.trainer.model(), prompt, {.tokens = tokens, .temperature = 0});
}

TEST(Sample, BeyondTheContextDependsOnTheLastContextTokensAlone) {
  TinyRun run(test::tiny_recipe(20));
  run.run(20);
  std::vector<std::int32_t> prompt =
      run.data.tokenizer.encode("the cat sees a small dog. the cat sees a dog. ");
  ASSERT_GT(prompt.size(), 2u * 16u);
  const auto whole = greedy(run, prompt, 40);
  EXPECT_EQ(whole.size(), 40u);
  EXPECT_EQ(greedy(run, std::span(prompt).last(16), 40), whole);
}

TEST(Sample, PaddingTheInputDoesNotChangeTheDraws) {
  TinyRun run(test::tiny_recipe(20));
  run.run(20);
  const auto prompt = run.data.tokenizer.encode("the ");  // padded to 4, 8, 16 as it grows
  const auto whole = greedy(run, prompt, 10);
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    std::vector<std::int32_t> longer = prompt;
    longer.insert(longer.end(), whole.begin(), whole.begin() + std::ptrdiff_t(cut));
    EXPECT_EQ(greedy(run, longer, 1)[0], whole[cut]) << cut;
  }
}

TEST(Sample, DrawsNoTokenThatTheTokenizerDoesNotKnow) {
  Recipe recipe = test::tiny_recipe(1);
  recipe.model.vocabulary = 512;  // of which the data has some fifteen
  TinyRun run(recipe);
  const std::int32_t first = 0;
  const auto drawn = [&](std::int64_t tokens_known) {
    return sample(*run.backend, run.trainer.model(), std::span(&first, 1),
                  {.tokens = 100, .tokens_known = tokens_known});
  };
  const std::int64_t known = run.data.tokenizer.size();
  EXPECT_THROW(run.data.tokenizer.decode(drawn(0)), Error) << "else the test would test nothing";
  EXPECT_NO_THROW(run.data.tokenizer.decode(drawn(known)));
}

TEST(Sample, WithoutAPromptIsAnErrorOfUse) {
  TinyRun run(test::tiny_recipe(1));
  try {
    greedy(run, {}, 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

TEST(Evaluate, OfAllWindowsIsTheMeanOverTheParts) {
  TinyRun run(test::tiny_recipe(1));
  const auto loss = [&](std::int64_t windows, std::int64_t at_a_time) {
    return evaluate(*run.backend, run.trainer.model(), run.data.validation,
                    {.windows = windows, .batch_size = at_a_time});
  };
  const Windows windows(run.data.validation, run.recipe.model.context);
  EXPECT_EQ(loss(0, 1).tokens, windows.count() * run.recipe.model.context);
  EXPECT_EQ(loss(windows.count() + 5, 1).tokens, loss(0, 1).tokens) << "no more windows than there are";
  EXPECT_EQ(loss(0, 1).loss, loss(windows.count(), 1).loss);
  // A mean over 16 n losses in f32 rounds each addition: relative error below 16 n 2^-24 (Higham,
  // section 4.2).
  EXPECT_NEAR(loss(3, 3).loss, loss(3, 1).loss, 3 * 16 * 0x1p-24 * loss(3, 3).loss);
}

}  // namespace
}  // namespace mxtape
