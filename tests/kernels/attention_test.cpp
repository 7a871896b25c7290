#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/attention_run.h"
#include "tests/support/every_tier.h"
#include "tests/support/reference_attention.h"

namespace mxtape::test {
namespace {

// One tile and several, whole and ragged; widths with and without whole vectors.
constexpr AttentionShape shapes[] = {{1, 1, 1, 1},   {2, 7, 3, 5},   {1, 50, 2, 65},
                                     {2, 64, 1, 16}, {1, 70, 2, 20}, {1, 130, 2, 32}};

/// The CPU rounds P and dS themselves; other devices P before it is divided by its row's sum, and dS before
/// it is multiplied by 1 / sqrt(D).
reference::Scores scores_with(const Quantizer& q) {
  return device_is_cpu() || q.is_identity() ? reference::Scores::as_operands : reference::Scores::near_bf16;
}

TEST(Attention, IsWithinItsRoundingErrorsInF32AndBf16) {
  for (const AttentionShape& s : shapes)
    for (const Quantizer& q : {f32_passthrough, bf16_cast}) {
      const AttentionInput in(s);
      const AttentionRun got = run_attention(s, in.qkv, in.d_o, all_slots(q));
      const reference::Attention want{s, in.qkv, in.d_o, q.operand_dtype(), 0, scores_with(q)};
      const Reference o = want.forward(), dqkv = want.backward(got.o);
      EXPECT_TRUE(within(got.o, o.value, o.bound)) << to_text(q) << " T " << s.time;
      EXPECT_TRUE(within(got.dqkv, dqkv.value, dqkv.bound)) << to_text(q) << " T " << s.time;
    }
}

/// What a reference allows for numbers that are rounded to bf16 at the end.
Reference stored_in_bf16(Reference r) {
  for (std::size_t i = 0; i < r.value.size(); ++i) r.bound[i] += 0x1p-8 * (std::abs(r.value[i]) + r.bound[i]);
  return r;
}
std::vector<float> in_bf16(std::vector<float> x) {
  for (float& v : x) v = to_f32(to_bf16(v));
  return x;
}

TEST(Attention, Bf16ActivationsAreWithinTheRoundingsOfPAndDs) {
  // Whole and ragged tiles of 64 and 128 rows; widths of one and two tiles, padded ones, and one that rows of
  // 16 bytes cannot hold.
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 64}, AttentionShape{2, 5, 2, 128}, AttentionShape{2, 16, 3, 24},
        AttentionShape{1, 65, 2, 64}, AttentionShape{1, 130, 2, 64}, AttentionShape{1, 130, 1, 128},
        AttentionShape{1, 64, 1, 80}, AttentionShape{2, 65, 1, 5}})
    for (const Quantizer& q : {f32_passthrough, bf16_cast}) {
      AttentionInput in(s);
      in.qkv = in_bf16(in.qkv), in.d_o = in_bf16(in.d_o);
      const AttentionRun got = run_attention(s, in.qkv, in.d_o, all_slots(q), {}, DType::bf16);
      const reference::Attention want{s, in.qkv, in.d_o, DType::bf16, 0, reference::Scores::near_bf16};
      const Reference o = stored_in_bf16(want.forward()), dqkv = stored_in_bf16(want.backward(got.o));
      EXPECT_TRUE(within(got.o, o.value, o.bound)) << to_text(q) << " T " << s.time << " D " << s.width;
      EXPECT_TRUE(within(got.dqkv, dqkv.value, dqkv.bound))
          << to_text(q) << " T " << s.time << " D " << s.width;
      const reference::Attention other{s, in.qkv, in.d_o, DType::bf16, 1, reference::Scores::near_bf16};
      if (s.time == 1) continue;  // no key is too many
      EXPECT_FALSE(within(got.o, other.forward().value, o.bound));
      EXPECT_FALSE(within(got.dqkv, other.backward(got.o).value, dqkv.bound));
    }
}

TEST(Attention, TheBoundsSeeAKeyTooManyAndUnroundedOperands) {
  const AttentionShape s{1, 70, 2, 20};
  const AttentionInput in(s);
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, {});
  const reference::Attention want{s, in.qkv, in.d_o, DType::f32}, other{s, in.qkv, in.d_o, DType::f32, 1};
  EXPECT_FALSE(within(got.o, other.forward().value, want.forward().bound));
  EXPECT_FALSE(within(got.dqkv, other.backward(got.o).value, want.backward(got.o).bound));
  const reference::Attention narrow{s, in.qkv, in.d_o, DType::bf16};
  EXPECT_FALSE(within(got.o, narrow.forward().value, narrow.forward().bound));
  EXPECT_FALSE(within(got.dqkv, narrow.backward(got.o).value, narrow.backward(got.o).bound));
}

TEST(Attention, LseIsTheLogarithmOfTheRowSums) {
  const AttentionShape s{1, 3, 1, 4};  // q . k / 2 by hand: all ones give 2
  const AttentionRun got = run_attention(s, std::vector<float>(36, 1), std::vector<float>(12, 1), {});
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(got.lse[std::size_t(i)], 2 + std::log(i + 1.0), 4 * 0x1p-23) << i;
}

TEST(Attention, FutureTokensChangeNoBit) {
  for (const Quantizer& q : {f32_passthrough, bf16_cast}) {
    const AttentionShape s{1, 130, 2, 32};
    const std::int64_t row = 3 * s.heads * s.width;
    const AttentionInput in(s);
    const AttentionRun before = run_attention(s, in.qkv, in.d_o, all_slots(q));
    for (const std::int64_t t : {1, 64, 100, 129}) {
      std::vector<float> qkv = in.qkv;
      for (std::size_t i = std::size_t(t * row); i < qkv.size(); ++i) qkv[i] = 100 - qkv[i];
      const AttentionRun after = run_attention(s, qkv, in.d_o, all_slots(q));
      const auto end = std::ptrdiff_t(t * s.heads * s.width);
      EXPECT_TRUE(std::equal(before.o.begin(), before.o.begin() + end, after.o.begin())) << t;
      EXPECT_NE(before.o, after.o);
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 20, 1, 16};
  std::vector<float> qkv = AttentionInput(s).qkv;
  for (float& v : qkv) v *= 1e4f;
  for (const float v : run_attention(s, qkv, AttentionInput(s).d_o, {}).o) EXPECT_TRUE(std::isfinite(v));
}

TEST(Attention, ANaNInAQueryShowsInItsRow) {
  const AttentionShape s{1, 70, 1, 16};
  AttentionInput in(s);
  in.qkv[66 * 48 + 3] = NAN;
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, {});
  EXPECT_TRUE(std::isnan(got.o[66 * 16]) && std::isnan(got.lse[66]));
  EXPECT_FALSE(std::isnan(got.o[65 * 16]));
}

TEST(Attention, TiersAndThreadCountsGiveTheSameBits) {
  const AttentionShape s{2, 70, 3, 20};
  const AttentionInput in(s);
  for (const Quantizer& q : {f32_passthrough, bf16_cast})
    expect_same_bits_everywhere(
        [&] {
          AttentionRun r = run_attention(s, in.qkv, in.d_o, all_slots(q));
          append(r.o, r.lse);
          return append(r.o, r.dqkv);
        },
        tiers_with_fma());
}

TEST(Attention, Bf16ActivationsGiveTheSameBitsEachTime) {
  for (const std::int64_t width : {16, 64, 128, 7}) {
    const AttentionShape s{1, 100, 2, width};
    const AttentionInput in(s);
    const auto run = [&] {
      AttentionRun r = run_attention(s, in.qkv, in.d_o, {}, {}, DType::bf16);
      append(r.o, r.lse);
      return append(r.o, r.dqkv);
    };
    EXPECT_EQ(run(), run()) << width;
  }
}

}  // namespace
}  // namespace mxtape::test
