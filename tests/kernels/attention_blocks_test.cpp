// Quantized attention where heads' blocks are whole, which devices may compute with scores that never leave
// the registers: exponentials and sums of their own, the same blocks, the same draws.
#include <gtest/gtest.h>

#include "kernels/attention/slots.h"
#include "tests/support/attention_composition.h"

namespace mxtape::test {
namespace {

const DrawKey draws{
    .seed = 5, .tensor_id = 40, .step = 3, .first_element = 192};  // of sequences of 96: two before

/// Every slot another quantizer, scores and some of the operands rounded as said.
AttentionQuant different_slots(const char* round_scores, const char* round_operands) {
  const auto with = [](const char* format, const char* round) {
    return parse_quantizer(std::string(format) + " round=" + round);
  };
  AttentionQuant q;
  q.qk_q = mxfp4, q.qk_k = with("mxfp4", round_operands);
  q.pv_p = with("mxfp8_e4m3", round_scores), q.pv_v = with("mxfp6_e2m3", round_operands);
  q.dv_p = with("mxfp6_e3m2", round_scores), q.dv_do = mxfp8_e5m2;
  q.dp_do = with("mxfp4", round_operands), q.dp_v = mxfp4;
  q.dq_ds = with("mxfp4", round_scores), q.dq_k = mxint8;
  q.dk_ds = with("mxfp8_e5m2", round_scores), q.dk_q = with("mxfp6_e3m2", round_operands);
  return q;
}

void expect_composition(const AttentionShape& s, const AttentionQuant& quant,
                        DType activations = DType::f32) {
  AttentionInput in(s);
  if (activations == DType::bf16)
    for (Floats* x : {&in.qkv, &in.d_o})
      for (float& v : *x) v = to_f32(to_bf16(v));
  DrawKey key = draws;
  key.first_element = std::uint64_t(2 * s.time);
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, quant, key, activations);
  EXPECT_TRUE(is_composition(s, in, quant, key, got, activations, Scores::own_softmax))
      << s.time << " x " << s.width;
}

// Widths of one and of several blocks, with and without padding of the tiles; lengths that end within a tile.
constexpr AttentionShape shapes[] = {{2, 96, 2, 32}, {1, 160, 2, 64}, {1, 32, 1, 96}, {1, 64, 1, 128}};

TEST(AttentionInBlocks, EverySlotIsQuantizedAsTheCompositionSays) {
  for (const AttentionShape& s : shapes) {
    expect_composition(s, different_slots("even", "even"));
    expect_composition(s, different_slots("stochastic", "stochastic"));
  }
}

TEST(AttentionInBlocks, OfBf16ActivationsIsTheSame) {
  for (const AttentionShape& s : shapes)
    expect_composition(s, different_slots("stochastic", "even"), DType::bf16);
}

TEST(AttentionInBlocks, SlotsThatAreNotQuantizedAreRoundedToBf16) {
  AttentionQuant quant = all_slots(bf16_cast);
  quant.pv_p = quant.pv_v = quant.dq_ds = mxfp4;
  quant.qk_q = quant.qk_k = quant.dp_do = quant.dp_v = mxfp4;  // S and dP are exact
  expect_composition({1, 96, 2, 32}, quant);
}

TEST(AttentionInBlocks, TheTestSeesEachSlotAndTheDraws) {
  const AttentionShape s{1, 64, 1, 64};
  const AttentionInput in(s);
  const AttentionQuant right = different_slots("stochastic", "stochastic");
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, right, draws);
  const auto accepts = [&](const AttentionQuant& quant, const DrawKey& key) {
    return bool(is_composition(s, in, quant, key, got, DType::f32, Scores::own_softmax));
  };
  EXPECT_TRUE(accepts(right, draws));
  for (const AttentionSlot& slot : attention_slots) {
    AttentionQuant wrong = right;
    wrong.*slot.field = mx(e3m2, 16);
    EXPECT_FALSE(accepts(wrong, draws));
  }
  DrawKey other = draws;
  other.first_element += 64;
  EXPECT_FALSE(accepts(right, other));
}

TEST(AttentionInBlocks, WhatIsNotFiniteReachesAllWhoSeeIt) {
  const AttentionShape s{1, 64, 2, 32};
  AttentionInput in(s);
  const std::int64_t token = 40, of_head = 64;
  in.qkv[std::size_t(token * 3 * of_head + 2 * of_head)] = NAN;  // a value of the first head
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, different_slots("even", "even"), draws);
  for (std::int64_t t = 0; t < s.time; ++t) {
    const float first = got.o[std::size_t(t * of_head)];
    EXPECT_TRUE(t < token || std::isnan(first)) << t;
    EXPECT_FALSE(std::isnan(got.o[std::size_t(t * of_head + s.width)])) << t;  // the other head
  }
}

}  // namespace
}  // namespace mxtape::test
