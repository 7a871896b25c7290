#include "nn/key_value_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/model.h"
#include "tests/support/tiny_gpt.h"

namespace mxtape {
namespace {

using namespace test;

/// All that Llama's architecture has: grouped heads, positions that turn, norms of Q and K.
ModelConfig llama(std::int64_t context) {
  ModelConfig c = tiny;
  c.heads = 6, c.kv_heads = 2, c.head_width = 8, c.context = context;
  c.norm = NormKind::rms, c.positions = Positions::rope, c.mlp = MlpKind::swiglu;
  c.qk_norm = true, c.bias = false, c.tied_head = false;
  return c;
}
ModelConfig gpt2(std::int64_t context) {
  ModelConfig c = tiny;
  c.context = context;
  return c;
}

LinearQuant of_activations(const Quantizer& q) {
  LinearQuant quant;
  quant.fprop_x = q, quant.fprop_w = q;
  return quant;
}
/// Attention whose blocks lie along D, and P's along keys.
AttentionQuant rows_of_attention(const Quantizer& q) {
  AttentionQuant quant;
  quant.qk_q = quant.qk_k = quant.pv_p = q;
  return quant;
}
AttentionQuant all_of_attention(const Quantizer& q) {
  AttentionQuant quant;
  for (const auto field :
       {&AttentionQuant::qk_q, &AttentionQuant::qk_k, &AttentionQuant::pv_p, &AttentionQuant::pv_v,
        &AttentionQuant::dv_p, &AttentionQuant::dv_do, &AttentionQuant::dp_do, &AttentionQuant::dp_v,
        &AttentionQuant::dq_ds, &AttentionQuant::dq_k, &AttentionQuant::dk_ds, &AttentionQuant::dk_q})
    quant.*field = q;
  return quant;
}

/// [B, T, V] of a whole pass.
std::vector<float> whole(Model& model, const std::vector<std::int32_t>& tokens, std::int64_t B,
                         std::int64_t T) {
  Tape tape(device(), Tape::Mode::evaluation);
  return download(device(), model.forward(tape, upload(device(), {B, T}, tokens)).value);
}
/// [B, V] behind T more tokens of each text.
std::vector<float> more(Model& model, KeyValueCache& cache, const std::vector<std::int32_t>& tokens,
                        std::int64_t T) {
  Tape tape(device(), Tape::Mode::evaluation);
  return download(device(), model.extend(tape, upload(device(), {cache.batch(), T}, tokens), cache).value);
}
std::vector<std::int32_t> part(const std::vector<std::int32_t>& tokens, std::int64_t first,
                               std::int64_t count) {
  return {tokens.begin() + first, tokens.begin() + first + count};
}
std::vector<float> row(const std::vector<float>& logits, std::int64_t r, std::int64_t V) {
  return {logits.begin() + r * V, logits.begin() + (r + 1) * V};
}

/// The logits behind each token of a text: of a whole pass, and of a prompt and then token by token.
struct Both {
  std::vector<float> whole, cached;
};
Both both_ways(Model& model, std::int64_t T, std::int64_t prompt) {
  const std::int64_t V = model.config().vocabulary;
  const auto tokens = random_tokens(T, std::int32_t(V), 5);
  Both b{whole(model, tokens, 1, T), {}};
  b.whole.erase(b.whole.begin(), b.whole.begin() + (prompt - 1) * V);
  KeyValueCache cache(1, T);
  b.cached = more(model, cache, part(tokens, 0, prompt), prompt);
  for (std::int64_t t = prompt; t < T; ++t) {
    const auto next = more(model, cache, part(tokens, t, 1), 1);
    b.cached.insert(b.cached.end(), next.begin(), next.end());
  }
  EXPECT_EQ(cache.length(), T);
  return b;
}

// Up to 16 rows every product of a pass is made row by row (kernels/cpu/gemm.h), in one order.
TEST(KeyValueCache, LogitsOfShortTextsHaveTheBitsOfAWholePass) {
  for (const ModelConfig& config : {gpt2(16), llama(16)}) {
    PrecisionPlan narrow = uniform_plan(config, of_activations(bf16_cast), all_of_attention(bf16_cast));
    narrow.activations = DType::bf16;
    for (const PrecisionPlan& plan :
         {uniform_plan(config), narrow, uniform_plan(config, of_activations(mxfp4)),
          uniform_plan(config, of_activations(mxfp6_e2m3), rows_of_attention(mxfp8_e4m3))}) {
      const auto model = make_model(device(), config, plan, 3);
      EXPECT_EQ(model->no_cache(), "");
      for (const std::int64_t prompt : {1, 5, 16}) {
        const Both b = both_ways(*model, 16, prompt);
        EXPECT_EQ(b.cached, b.whole) << to_text(plan.linear.at("head").fprop_x) << ", prompt " << prompt;
      }
    }
  }
}

// Longer passes add in the order of the GEMM library. The tolerance is that of logits against another
// program's (tests/conformance/imported.h).
TEST(KeyValueCache, LogitsOfLongerTextsDifferByTheOrderOfAdditionsAlone) {
  for (const ModelConfig& config : {gpt2(80), llama(80)}) {
    const auto model = make_model(device(), config, uniform_plan(config), 3);
    for (const std::int64_t prompt : {1, 70}) {
      const Both b = both_ways(*model, 80, prompt);
      ASSERT_EQ(b.cached.size(), b.whole.size());
      double largest = 0, off = 0;
      for (std::size_t i = 0; i < b.whole.size(); ++i) {
        largest = std::max(largest, std::fabs(double(b.whole[i])));
        off = std::max(off, std::fabs(double(b.whole[i]) - double(b.cached[i])));
      }
      EXPECT_LE(off, 1e-5 * largest) << prompt;
    }
  }
}

TEST(KeyValueCache, ATextOfABatchHasTheBitsThatItHasAlone) {
  for (const ModelConfig& config : {gpt2(40), llama(40)}) {
    const std::int64_t V = config.vocabulary, prompt = 20, B = 5;
    const auto model = make_model(device(), config, uniform_plan(config, of_activations(mxfp6_e3m2)), 3);
    const auto tokens = random_tokens(prompt, std::int32_t(V), 5);
    KeyValueCache batch(B, 40);
    std::vector<KeyValueCache> alone;
    for (std::int64_t b = 0; b < B; ++b) {
      more(*model, alone.emplace_back(1, 40), tokens, prompt);
      batch.put(device(), b, alone.back());
    }
    for (int step = 0; step < 3; ++step) {
      const auto next = random_tokens(B, std::int32_t(V), unsigned(step));
      const auto all = more(*model, batch, next, 1);
      for (std::int64_t b = 0; b < B; ++b)
        EXPECT_EQ(row(all, b, V), more(*model, alone[std::size_t(b)], part(next, b, 1), 1)) << b;
    }
  }
}

TEST(KeyValueCache, SeveralTextsMayBeginTogether) {
  const ModelConfig config = llama(8);
  const std::int64_t V = config.vocabulary;
  const auto model = make_model(device(), config, uniform_plan(config), 3);
  const auto tokens = random_tokens(2 * 8, std::int32_t(V), 5);
  const auto want = whole(*model, tokens, 2, 8);
  KeyValueCache cache(2, 8);
  std::vector<std::int32_t> begin = part(tokens, 0, 7);
  for (const auto token : part(tokens, 8, 7)) begin.push_back(token);
  const auto first = more(*model, cache, begin, 7);
  EXPECT_EQ(row(first, 0, V), row(want, 6, V));
  EXPECT_EQ(row(first, 1, V), row(want, 14, V));
  const auto last = more(*model, cache, {tokens[7], tokens[15]}, 1);
  EXPECT_EQ(row(last, 0, V), row(want, 7, V));
  EXPECT_EQ(row(last, 1, V), row(want, 15, V));
}

TEST(KeyValueCache, RefusesMoreThanThereIsRoomForAndWhatIsNotOneTokenMore) {
  const ModelConfig config = gpt2(8);
  const auto model = make_model(device(), config, uniform_plan(config), 3);
  KeyValueCache cache(1, 4);
  more(*model, cache, {1, 2, 3}, 3);
  EXPECT_THROW(more(*model, cache, {1, 2}, 2), Error);
  more(*model, cache, {1}, 1);
  EXPECT_THROW(more(*model, cache, {1}, 1), Error);
  KeyValueCache full(1, 9);
  more(*model, full, random_tokens(8, 17, 1), 8);
  EXPECT_THROW(more(*model, full, {1}, 1), Error) << "behind the context";
  Tape training(device(), Tape::Mode::training);
  KeyValueCache another(1, 4);
  EXPECT_THROW(model->extend(training, upload(device(), {1, 1}, std::vector<std::int32_t>{1}), another),
               Error);
}

TEST(MixesTokens, IsSaidOfOperandsWhoseRoundingSeesOtherTokens) {
  const auto of_linear = [](const Quantizer& q) {
    return mixes_tokens(uniform_plan(tiny, of_activations(q)));
  };
  for (const char* apart :
       {"mxfp4", "bf16", "e4m3", "mxint8 rule=ceil", "mxfp4 statistic=rms", "e2m1 block=axis scale=e8m0"})
    EXPECT_EQ(of_linear(parse_quantizer(apart)), "") << apart;
  EXPECT_EQ(of_linear(parse_quantizer("nvfp4")),
            "blocks.0.attn.out fprop.x is nvfp4, whose scale of the tensor sees all tokens of a pass");
  EXPECT_EQ(of_linear(parse_quantizer("mxfp4 round=stochastic")),
            "blocks.0.attn.out fprop.x is mxfp4 round=stochastic, whose random numbers are counted over a "
            "whole pass");
  EXPECT_EQ(of_linear(parse_quantizer("mxfp4 block=16x16")),
            "blocks.0.attn.out fprop.x is mxfp4 block=16x16, whose blocks lie across tokens");
  LinearQuant weights;
  weights.fprop_w = parse_quantizer("nvfp4 round=stochastic");
  EXPECT_EQ(mixes_tokens(uniform_plan(tiny, weights)), "") << "weights are no tokens";

  EXPECT_EQ(mixes_tokens(uniform_plan(tiny, {}, rows_of_attention(mxfp4))), "");
  EXPECT_EQ(mixes_tokens(uniform_plan(tiny, {}, all_of_attention(bf16_cast))), "");
  EXPECT_EQ(mixes_tokens(uniform_plan(tiny, {}, all_of_attention(mxint8))),
            "blocks.0.attn pv.v is mxint8, whose blocks lie along tokens");
  AttentionQuant offsets;
  offsets.pv_p = parse_quantizer("mxfp4 statistic=rms");
  EXPECT_NE(mixes_tokens(uniform_plan(tiny, {}, offsets)), "") << "zeros behind change the mean square";
}

// Else the fallback would be for nothing: what mixes_tokens() names does change what a token gets.
TEST(MixesTokens, WhatItNamesGivesAnotherResult) {
  const ModelConfig config = gpt2(16);
  for (const PrecisionPlan& plan :
       {uniform_plan(config, of_activations(nvfp4)), uniform_plan(config, {}, all_of_attention(mxfp4))}) {
    const auto model = make_model(device(), config, plan, 3);
    EXPECT_NE(model->no_cache(), "");
    const Both b = both_ways(*model, 16, 1);
    EXPECT_NE(b.cached, b.whole);
  }
}

}  // namespace
}  // namespace mxtape
