#include "train/sampling/sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/gemm.h"
#include "tests/train/tiny_run.h"
#include "train/sampling/next_logits.h"

namespace mxtape {
namespace {

// So that the logits of a text do not depend on how many others there are.
static_assert(most_texts <= cpu::most_few_rows);

using test::TinyRun;

/// The likeliest continuation, token by token.
std::vector<std::int32_t> greedy(TinyRun& run, std::span<const std::int32_t> prompt, std::int64_t tokens,
                                 bool cache = true) {
  return sample(*run.backend, run.trainer.model(), prompt,
                {.tokens = tokens, .temperature = 0, .cache = cache});
}

TEST(Sample, BeyondTheContextDependsOnTheLastContextTokensAlone) {
  TinyRun run(test::tiny_recipe(20));
  run.run(20);
  std::vector<std::int32_t> prompt =
      run.data.tokenizer.encode("the cat sees a small dog. the cat sees a dog. ");
  ASSERT_GT(prompt.size(), 2u * 16u);
  for (const bool cache : {true, false}) {
    const auto whole = greedy(run, prompt, 40, cache);
    EXPECT_EQ(whole.size(), 40u);
    EXPECT_EQ(greedy(run, std::span(prompt).last(16), 40, cache), whole);
  }
}

// Logits have the same bits (tests/nn/key_value_cache_test.cpp), so every draw is the same.
TEST(Sample, WithKeysAndValuesKeptAndWithoutGivesTheSameTextUpToTheContext) {
  for (const Recipe& recipe : {test::tiny_recipe(20), test::tiny_mxfp4_recipe(20)}) {
    TinyRun run(recipe);
    run.run(20);
    ASSERT_EQ(run.trainer.model().no_cache(), "");
    const auto prompt = run.data.tokenizer.encode("the ");
    const auto drawn = [&](bool cache) {
      return sample(*run.backend, run.trainer.model(), prompt, {.tokens = 13, .seed = 5, .cache = cache});
    };
    EXPECT_EQ(drawn(true), drawn(false));
  }
}

// Up to 16 rows the logits of equal tokens have the same bits, and of other tokens other ones.
TEST(NextLogits, OfATextThatFillsTheContextAreThoseBehindItsNewestHalf) {
  TinyRun run(test::tiny_recipe(20));
  run.run(20);
  Model& model = run.trainer.model();
  TextTokens text = run.data.tokenizer.encode("the cat sees a small dog. ");
  text.resize(16);
  const auto cached = cached_passes(*run.backend, model, {}, 1, 16, 20),
             whole = whole_passes(*run.backend, model, {});
  EXPECT_EQ(cached->begin(text), whole->begin(text));
  for (std::size_t seen = 8; seen <= 16; ++seen) {  // and again once it is full again
    text.push_back(text[seen]);
    EXPECT_EQ(cached->next({text}), whole->begin(std::span(text).last(seen))) << seen;
  }
  text.push_back(text[3]);
  EXPECT_EQ(cached->next({text}), whole->begin(std::span(text).last(8)));
  EXPECT_NE(whole->begin(std::span(text).last(7)), whole->begin(std::span(text).last(8)));
}

TEST(Sample, OfAPrecisionThatMixesTokensMakesWholePasses) {
  Recipe recipe = test::tiny_recipe(20);
  recipe.precision.activations = "nvfp4";
  TinyRun run(recipe);
  run.run(20);
  ASSERT_NE(run.trainer.model().no_cache(), "");
  const auto prompt = run.data.tokenizer.encode("the ");
  EXPECT_EQ(greedy(run, prompt, 40), greedy(run, prompt, 40, false));
}

/// What `texts` texts become, with the first `ends` of them ended after three tokens.
std::vector<std::vector<std::int32_t>> several(TinyRun& run, std::span<const std::int32_t> prompt,
                                               const SampleOptions& options, std::int64_t texts,
                                               std::int64_t ends = 0) {
  std::vector<std::vector<std::int32_t>> all(static_cast<std::size_t>(texts));
  sample_texts(*run.backend, run.trainer.model(), prompt, options, texts,
               [&](std::int64_t text, std::int32_t token) {
                 all[std::size_t(text)].push_back(token);
                 return text >= ends || all[std::size_t(text)].size() < 3;
               });
  return all;
}

TEST(SampleTexts, EachIsWhatItsSeedDrawsAlone) {
  for (const Recipe& recipe : {test::tiny_recipe(20), test::tiny_mxfp4_recipe(20)}) {
    TinyRun run(recipe);
    run.run(20);
    const auto prompt = run.data.tokenizer.encode("the cat ");
    SampleOptions options{.tokens = 30, .top_p = 0.95, .seed = 5};  // three times through the context
    const auto all = several(run, prompt, options, 19);             // more than one batch
    for (std::size_t text = 0; text < all.size(); ++text) {
      SampleOptions one = options;
      one.seed += text;
      EXPECT_EQ(sample(*run.backend, run.trainer.model(), prompt, one), all[text]) << text;
    }
    EXPECT_NE(all[0], all[1]);
    const auto some = several(run, prompt, options, 4, 2);
    EXPECT_EQ(some[0], std::vector(all[0].begin(), all[0].begin() + 3));
    EXPECT_EQ(some[3], all[3]) << "others have ended";
  }
}

TEST(SampleTexts, AreTimedApartFromTheirPrompt) {
  TinyRun run(test::tiny_recipe(1));
  const auto prompt = run.data.tokenizer.encode("the cat ");
  for (const bool cache : {true, false}) {
    const auto times = sample_texts(*run.backend, run.trainer.model(), prompt, {.tokens = 5, .cache = cache},
                                    3, [](std::int64_t, std::int32_t) { return true; });
    EXPECT_EQ(times.prompt_tokens, cache ? 8 : 3 * 8)
        << "texts that are computed alone have passes of their own";
    EXPECT_EQ(times.tokens, 3 * 4);
    EXPECT_GT(times.prompt_seconds, 0);
    EXPECT_GT(times.seconds, 0);
  }
}

TEST(Sample, OfLogitsThatAreNotFiniteIsAnError) {
  TinyRun run(test::tiny_recipe(1));
  Parameter& gain = *run.trainer.model().parameters().back();
  run.backend->fill(gain.value, NAN);
  for (const bool cache : {true, false}) {
    try {
      greedy(run, std::vector<std::int32_t>{1, 2}, 1, cache);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::diverged);
      EXPECT_NE(std::string(e.what()).find("the logit of token 0 is nan"), std::string::npos) << e.what();
    }
  }
}

TEST(Sample, PaddingTheInputDoesNotChangeTheDraws) {
  TinyRun run(test::tiny_recipe(20));
  run.run(20);
  const auto prompt = run.data.tokenizer.encode("the ");  // padded to 4, 8, 16 as it grows
  const auto whole = greedy(run, prompt, 10, false);
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    std::vector<std::int32_t> longer = prompt;
    longer.insert(longer.end(), whole.begin(), whole.begin() + std::ptrdiff_t(cut));
    EXPECT_EQ(greedy(run, longer, 1, false)[0], whole[cut]) << cut;
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
