// Attention beyond one causal sequence whose heads all have keys of their own: grouped heads, no mask, keys
// from another tensor with their own length, queries at an offset, dropped probabilities, rounded scores.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/slots.h"
#include "tests/support/attention_composition.h"
#include "tests/support/every_tier.h"
#include "tests/support/print.h"
#include "tests/support/reference_attention.h"

namespace mxtape::test {
namespace {

struct Problem {
  AttentionShape s;
  std::vector<std::int32_t> lengths{};
  AttentionInput input() const {
    AttentionInput in(s);
    in.lengths = lengths;
    return in;
  }
};

AttentionShape grouped(AttentionShape s, std::int64_t kv_heads) {
  s.kv_heads = kv_heads;
  return s;
}
AttentionShape unmasked(AttentionShape s) {
  s.mask = AttentionMask::none;
  return s;
}
/// Keys and values from a tensor of their own.
AttentionShape crossed(AttentionShape s, std::int64_t keys, std::int64_t room) {
  s.own_keys = true, s.mask = AttentionMask::none, s.keys = keys, s.room = room;
  return s;
}
/// The last queries of `keys` keys, as with a cache of them.
AttentionShape cached(AttentionShape s, std::int64_t keys, std::int64_t room) {
  s.own_keys = true, s.keys = keys, s.room = room, s.first_position = keys - s.time;
  return s;
}

std::vector<Problem> grouped_problems() {
  return {{grouped({1, 70, 4, 20}, 2)},
          {grouped({1, 66, 3, 32}, 1)},
          {grouped({2, 20, 4, 64}, 2)},
          {grouped({1, 20, 2, 128}, 1)},
          {grouped({1, 7, 4, 5}, 2)}};
}
std::vector<Problem> masked_problems() {
  return {{unmasked({1, 70, 2, 20})},
          {unmasked({2, 20, 2, 16}), {3, 20}},
          {grouped({2, 68, 2, 16}, 1), {65, 12}},
          {crossed({2, 7, 2, 20}, 70, 70)},
          {crossed({2, 66, 2, 16}, 5, 9), {5, 2}},
          {crossed(grouped({2, 10, 4, 32}, 2), 130, 130), {64, 129}},
          {cached({2, 1, 4, 16}, 67, 80)},
          {cached(grouped({1, 20, 2, 20}, 1), 83, 83)}};
}

void expect_within(const Problem& p, const Quantizer& q, DType activations) {
  AttentionInput in = p.input();
  if (activations == DType::bf16)
    for (auto* x : {&in.qkv, &in.kv, &in.d_o})
      for (float& v : *x) v = to_f32(to_bf16(v));
  const AttentionRun got = run_attention(p.s, in, all_slots(q), {}, activations);
  const bool near = activations == DType::bf16 || (!device_is_cpu() && !q.is_identity());
  const DType operands = activations == DType::bf16 ? DType::bf16 : q.operand_dtype();
  const auto want = [&](std::int64_t keys_too_many) {
    return reference::Attention{
        p.s,      in.qkv,        in.d_o,
        operands, keys_too_many, near ? reference::Scores::near_bf16 : reference::Scores::as_operands,
        in.kv,    in.lengths};
  };
  const auto stored = [&](Reference r) {
    if (activations == DType::bf16)
      for (std::size_t i = 0; i < r.value.size(); ++i)
        r.bound[i] += 0x1p-8 * (std::abs(r.value[i]) + r.bound[i]);
    return r;
  };
  std::vector<float> gradients = got.dqkv;
  append(gradients, got.dkv);
  Reference o = stored(want(0).forward()), g = stored(want(0).backward(got.o));
  // Rows behind a sequence's keys have no gradient: anything may be there.
  for (std::int64_t b = 0, row = 2 * p.s.kv_heads * p.s.width; p.s.own_keys && b < p.s.batch; ++b)
    for (std::int64_t i = p.s.keys * row; i < p.s.room * row; ++i)
      gradients[got.dqkv.size() + std::size_t(b * p.s.room * row + i)] = 0;
  EXPECT_TRUE(within(got.o, o.value, o.bound)) << testing::PrintToString(p.s) << " " << to_text(q);
  EXPECT_TRUE(within(gradients, g.value, g.bound)) << testing::PrintToString(p.s) << " " << to_text(q);
  if (p.s.is_causal_self() || !p.lengths.empty()) {
    EXPECT_FALSE(within(got.o, want(1).forward().value, o.bound)) << testing::PrintToString(p.s);
  }
}

TEST(AttentionShapes, GroupedHeadsAreWithinTheirRoundingErrors) {
  for (const Problem& p : grouped_problems())
    for (const Quantizer& q : {f32_passthrough, bf16_cast})
      for (const DType activations : {DType::f32, DType::bf16}) expect_within(p, q, activations);
}

TEST(AttentionShapes, MasksAndOtherKeysAreWithinTheirRoundingErrors) {
  for (const Problem& p : masked_problems())
    for (const Quantizer& q : {f32_passthrough, bf16_cast})
      for (const DType activations : {DType::f32, DType::bf16}) expect_within(p, q, activations);
}

const DrawKey draws{.seed = 5, .tensor_id = 40, .step = 3};

/// Twelve different slots, stochastic ones among them.
AttentionQuant mixture() {
  AttentionQuant q;
  q.qk_q = mxfp4, q.qk_k = parse_quantizer("mxfp4 round=stochastic");
  q.pv_p = mxfp8_e4m3, q.pv_v = parse_quantizer("mxfp6_e2m3 round=stochastic");
  q.dv_p = parse_quantizer("mxfp6_e3m2 round=stochastic"), q.dv_do = mxfp8_e5m2;
  q.dp_do = parse_quantizer("mxfp4 round=stochastic"), q.dp_v = mxfp4;
  q.dq_ds = parse_quantizer("mxfp4 round=stochastic"), q.dq_k = parse_quantizer("mxint8 round=stochastic");
  q.dk_ds = mxfp8_e5m2, q.dk_q = mxfp6_e3m2;
  return q;
}

testing::AssertionResult quantizes_as_composed(const Problem& p, const AttentionQuant& quant,
                                               const AttentionQuant& expected) {
  const AttentionInput in = p.input();
  DrawKey key = draws;
  key.first_element = std::uint64_t(2 * p.s.time);  // two sequences before
  AttentionRun got = run_attention(p.s, in, quant, key);
  return is_composition(p.s, in, expected, key, got);
}

TEST(AttentionShapes, EverySlotIsRoundedOncePerKeyHeadOrQueryHead) {
  for (const auto& problems : {grouped_problems(), masked_problems()})
    for (const Problem& p : problems)
      EXPECT_TRUE(quantizes_as_composed(p, mixture(), mixture())) << testing::PrintToString(p.s);
}

TEST(AttentionShapes, AScaleOfTheWholeTensorIsOfAKeyHead) {
  EXPECT_TRUE(quantizes_as_composed({grouped({1, 70, 4, 16}, 2)}, all_slots(nvfp4), all_slots(nvfp4)));
}

TEST(AttentionShapes, TheTestSeesEachSlotOfGroupedHeads) {
  const Problem p{grouped({1, 70, 4, 32}, 2)};
  for (const AttentionSlot& slot : attention_slots) {
    AttentionQuant wrong = mixture();
    wrong.*slot.field = mx(e3m2, 16);
    EXPECT_FALSE(quantizes_as_composed(p, mixture(), wrong)) << slot.name;
  }
}

TEST(AttentionShapes, ProbabilitiesAreDroppedByTheirNumber) {
  Problem p{grouped({2, 40, 4, 20}, 2)};
  p.s.dropout = 0.25f;
  AttentionQuant exact_products;  // and nothing else is rounded
  exact_products.qk_q = exact_products.qk_k = exact_products.dp_do = exact_products.dp_v = mxfp4;
  for (const AttentionQuant& quant : {exact_products, mixture()}) {
    const AttentionInput in = p.input();
    const AttentionRun got = run_attention(p.s, in, quant, draws);
    EXPECT_TRUE(is_composition(p.s, in, quant, draws, got));
    AttentionShape other = p.s;
    other.dropout = 0.26f;
    EXPECT_FALSE(is_composition(other, in, quant, draws, got));
  }
}

TEST(AttentionShapes, TheScoreMatrixIsRoundedWithoutKeysThatAQueryDoesNotSee) {
  for (const char* text : {"mxfp8", "nvfp4", "mxfp6 round=stochastic"}) {
    AttentionQuant quant = all_slots(mxfp4);
    quant.qk_s = parse_quantizer(text);
    for (const Problem& p : {Problem{{1, 40, 2, 32}}, masked_problems()[5]}) {
      EXPECT_TRUE(quantizes_as_composed(p, quant, quant)) << text;
      EXPECT_FALSE(quantizes_as_composed(p, quant, all_slots(mxfp4))) << text;
    }
  }
}

TEST(AttentionShapes, TiersAndThreadCountsGiveTheSameBits) {
  for (const Problem& p : {grouped_problems()[0], masked_problems()[5]})
    for (const AttentionQuant& quant : {AttentionQuant{}, all_slots(bf16_cast), mixture()})
      expect_same_bits_everywhere(
          [&] {
            AttentionRun r = run_attention(p.s, p.input(), quant, draws);
            append(r.o, r.lse);
            append(r.o, r.dkv);
            return append(r.o, r.dqkv);
          },
          tiers_with_fma());
}

}  // namespace
}  // namespace mxtape::test
