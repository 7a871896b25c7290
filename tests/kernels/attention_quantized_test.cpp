// Attention with quantized operands against its composition, written out: quantize by the scalar definition,
// multiply in double. Q, K, dO and V have so few significant bits that S and dP are exact, so P and dS, and
// all that is quantized from them, must have the same bits; the products that leave attention are held to the
// bound of a sum.
#include <gtest/gtest.h>

#include "kernels/attention/slots.h"
#include "tests/support/attention_composition.h"
#include "tests/support/every_tier.h"
#include "tests/support/reference_attention.h"

namespace mxtape::test {
namespace {

const DrawKey draws{
    .seed = 5, .tensor_id = 40, .step = 3, .first_element = 140};  // two sequences of 70 before

/// Twelve different slots, stochastic ones among them.
AttentionQuant mixture() {
  AttentionQuant q;
  q.qk_q = mxfp4, q.qk_k = parse_quantizer("mxfp4 round=stochastic");
  q.pv_p = mxfp8_e4m3, q.pv_v = mxfp6_e2m3;
  q.dv_p = parse_quantizer("mxfp6_e3m2 round=stochastic"), q.dv_do = mxfp8_e5m2;
  q.dp_do = parse_quantizer("mxfp4 round=stochastic"), q.dp_v = mxfp4;
  q.dq_ds = parse_quantizer("mxfp4 round=stochastic"), q.dq_k = mxint8;
  q.dk_ds = bf16_cast, q.dk_q = f32_passthrough;
  return q;
}

TEST(QuantizedAttention, EverySlotIsQuantizedAsTheCompositionSays) {
  for (const AttentionShape& s :
       {AttentionShape{2, 70, 3, 32}, AttentionShape{1, 7, 1, 5}, AttentionShape{1, 1, 2, 16}}) {
    const AttentionInput in(s);
    const AttentionRun got = run_attention(s, in.qkv, in.d_o, mixture(), draws);
    EXPECT_TRUE(is_composition(s, in, mixture(), draws, got)) << s.time;
  }
}

TEST(QuantizedAttention, Bf16ActivationsAreQuantizedAsTheyAre) {
  const AttentionShape s{2, 70, 3, 32};
  AttentionInput in(s);
  for (Floats* x : {&in.qkv, &in.d_o})
    for (float& v : *x) v = to_f32(to_bf16(v));
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, mixture(), draws, DType::bf16);
  EXPECT_TRUE(is_composition(s, in, mixture(), draws, got, DType::bf16));
}

TEST(QuantizedAttention, TheTensorScaleOfNvfp4IsOnePerHead) {
  const AttentionShape s{1, 70, 2, 16};
  AttentionInput in(s);
  for (std::size_t i = 0; i < in.qkv.size(); ++i)
    if (i / 16 % 2) in.qkv[i] *= 50;  // the second head is far larger
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, all_slots(nvfp4), draws);
  EXPECT_TRUE(is_composition(s, in, all_slots(nvfp4), draws, got));
}

TEST(QuantizedAttention, RangeMultipliersAreUndone) {
  const AttentionShape s{1, 40, 1, 32};
  const AttentionInput in(s);
  const AttentionQuant quant = all_slots(parse_quantizer("mxfp4 alpha=0.75"));
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, quant, draws);
  EXPECT_TRUE(is_composition(s, in, quant, draws, got));
}

TEST(QuantizedAttention, ByHeadsIsTheSameFunctionAsByTiles) {
  // One operand in f32 takes the way by heads; Q is exact in bf16, so that operand's values are the same.
  const AttentionShape s{2, 70, 2, 20};
  AttentionInput in(s);
  for (float& v : in.qkv) v = to_f32(to_bf16(v));
  AttentionQuant mixed = all_slots(bf16_cast);
  mixed.dk_q = f32_passthrough;
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, mixed);
  const reference::Attention want{s, in.qkv, in.d_o, DType::bf16};
  const Reference o = want.forward(), dqkv = want.backward(got.o);
  EXPECT_TRUE(within(got.o, o.value, o.bound));
  EXPECT_TRUE(within(got.dqkv, dqkv.value, dqkv.bound));
}

TEST(QuantizedAttention, TiersAndThreadCountsGiveTheSameBits) {
  const AttentionShape s{2, 70, 3, 20};
  const AttentionInput in(s);
  expect_same_bits_everywhere([&] {
    AttentionRun r = run_attention(s, in.qkv, in.d_o, all_slots(mxfp8_e4m3));
    append(r.o, r.lse);
    return append(r.o, r.dqkv);
  });
}

TEST(QuantizedAttention, TheTestSeesEachSlotAndTheDraws) {
  const AttentionShape s{1, 70, 1, 32};
  const AttentionInput in(s);
  const AttentionQuant right = mixture();
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, right, draws);
  for (const AttentionSlot& slot : attention_slots) {
    AttentionQuant wrong = right;
    wrong.*slot.field = mx(e3m2, 16);
    EXPECT_FALSE(is_composition(s, in, wrong, draws, got));
  }
  DrawKey other = draws;
  other.first_element += 70;
  EXPECT_FALSE(is_composition(s, in, right, other, got));
}

}  // namespace
}  // namespace mxtape::test
