// Attention with bf16 operands, with each instruction for them that the machine has, and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pairs/pairs.h"
#include "tests/support/attention_run.h"
#include "tests/support/every_tier.h"
#include "tests/support/print.h"
#include "tests/support/reference_attention.h"

namespace mxtape::test {
namespace {

struct Problem {
  AttentionShape s;
  std::vector<std::int32_t> lengths{};
};

AttentionShape grouped(AttentionShape s, std::int64_t kv_heads) {
  s.kv_heads = kv_heads;
  return s;
}
AttentionShape unmasked(AttentionShape s) {
  s.mask = AttentionMask::none;
  return s;
}
/// Keys and values of a tensor of their own, behind which the queries' positions end if the mask is causal.
AttentionShape with_keys(AttentionShape s, AttentionMask mask, std::int64_t keys) {
  s.own_keys = true, s.mask = mask, s.keys = keys, s.room = keys + 3;
  if (mask == AttentionMask::causal) s.first_position = keys - s.time;
  return s;
}

/// Whole and ragged groups of queries, panels of 16 keys and columns, blocks of 8 and of 64 keys, a part of
/// 512 queries and one more; odd widths, whose last pair is half empty. The last one is so large that the
/// next heads are fetched ahead.
std::vector<Problem> problems() {
  return {{{1, 17, 1, 1}},
          {{2, 23, 2, 5}},
          {{1, 64, 2, 32}},
          {{1, 65, 1, 33}},
          {{1, 81, 2, 64}},
          {{1, 130, 1, 80}},
          {{1, 48, 1, 128}},
          {{1, 40, 1, 257}},
          {{1, 531, 1, 7}},
          {grouped({1, 70, 4, 20}, 2)},
          {grouped({2, 33, 3, 16}, 1)},
          {unmasked({1, 70, 2, 31})},
          {unmasked({2, 20, 2, 16}), {3, 20}},
          {{2, 90, 2, 24}, {17, 66}},
          {with_keys({2, 18, 2, 20}, AttentionMask::none, 131)},
          {with_keys({2, 66, 2, 16}, AttentionMask::none, 5), {5, 2}},
          {with_keys(grouped({1, 21, 4, 32}, 2), AttentionMask::none, 130), {64}},
          {with_keys({1, 19, 1, 16}, AttentionMask::causal, 67)},
          {with_keys(grouped({1, 75, 2, 20}, 1), AttentionMask::causal, 150), {101}},
          {grouped({6, 32, 12, 160}, 4), {5, 32, 9, 1, 30, 32}}};
}

AttentionInput input_of(const Problem& p) {
  AttentionInput in(p.s);
  in.lengths = p.lengths;
  return in;
}

/// o, lse, dqkv and dkv but for the rows behind a sequence's keys, which have no gradient.
std::vector<float> results(const Problem& p, const AttentionInput& in) {
  AttentionRun r = run_attention(p.s, in, all_slots(bf16_cast));
  const std::int64_t row = 2 * p.s.kv_heads * p.s.width;
  for (std::int64_t b = 0; p.s.own_keys && b < p.s.batch; ++b)
    std::fill_n(r.dkv.begin() + (b * p.s.room + p.s.keys) * row, (p.s.room - p.s.keys) * row, 0.0f);
  append(r.o, r.lse);
  append(r.o, r.dqkv);
  return append(r.o, r.dkv);
}

TEST(AttentionByPairs, IsWithinItsRoundingErrors) {
  for (const cpu::PairTier t : pair_tiers_of_this_machine()) {
    const InPairs pairs(t);
    for (const Problem& p : problems()) {
      const AttentionInput in = input_of(p);
      const AttentionRun got = run_attention(p.s, in, all_slots(bf16_cast));
      const auto want = [&](std::int64_t keys_too_many) {
        return reference::Attention{.s = p.s,
                                    .qkv = in.qkv,
                                    .d_o = in.d_o,
                                    .operands = DType::bf16,
                                    .keys_too_many = keys_too_many,
                                    .kv = in.kv,
                                    .lengths = in.lengths};
      };
      const std::vector<float> all = results(p, in);
      std::vector<float> gradients(all.begin() + std::ptrdiff_t(got.o.size() + got.lse.size()), all.end());
      const Reference o = want(0).forward(), g = want(0).backward(got.o);
      EXPECT_TRUE(within(got.o, o.value, o.bound)) << name_of(t) << " " << testing::PrintToString(p.s);
      EXPECT_TRUE(within(gradients, g.value, g.bound)) << name_of(t) << " " << testing::PrintToString(p.s);
      if (!p.s.is_causal_self()) continue;
      EXPECT_FALSE(within(got.o, want(1).forward().value, o.bound)) << testing::PrintToString(p.s);
      EXPECT_FALSE(within(gradients, want(1).backward(got.o).value, g.bound)) << testing::PrintToString(p.s);
    }
  }
}

TEST(AttentionByPairs, LseIsTheLogarithmOfTheSumOfExponentials) {
  const Problem p{{1, 70, 1, 16}};
  AttentionInput in = input_of(p);
  for (float& v : in.qkv) v = to_f32(to_bf16(v));
  const std::vector<float> lse = run_attention(p.s, in, all_slots(bf16_cast)).lse;
  for (std::int64_t i = 0; i < p.s.time; ++i) {
    double sum = 0, largest = 0;
    for (std::int64_t j = 0; j <= i; ++j) {
      double score = 0, size = 0;
      for (std::int64_t d = 0; d < 16; ++d) {
        const double term =
            double(in.qkv[std::size_t(i * 48 + d)]) * in.qkv[std::size_t(j * 48 + 16 + d)] / 4;
        score += term, size += std::abs(term);
      }
      sum += std::exp(score), largest = std::max(largest, size);
    }
    // Scores, their 16 products added and scaled; powers and their sum; a logarithm and an addition.
    const double bound = gamma(20) * largest + gamma(16) + 0x1p-23 * (std::abs(std::log(sum)) + largest);
    EXPECT_NEAR(lse[std::size_t(i)], std::log(sum), bound) << i;
  }
}

TEST(AttentionByPairs, ThreadsAndInstructionSetsChangeNoBitButAmxAndThoseWithoutFma) {
  const cpu::Tier best = cpu::tier();
  const int before = threads();
  for (const Problem& p : problems()) {
    const AttentionInput in = input_of(p);
    const bool amx = cpu::has_amx();
    const std::vector<float> want = results(p, in);
    const auto is_same = [&] {
      const std::vector<float> got = results(p, in);
      return std::memcmp(got.data(), want.data(), want.size() * sizeof(float)) == 0;
    };
    for (const int count : {1, 3}) {
      set_threads(count);
      EXPECT_TRUE(is_same()) << count << " threads";
    }
    if (cpu::has_pair_tier(cpu::PairTier::avx512_bf16)) {
      const InPairs dots(cpu::PairTier::avx512_bf16);
      EXPECT_EQ(is_same(), !amx) << testing::PrintToString(p.s);
    }
    const InPairs loops(cpu::PairTier::loops);
    for (const cpu::Tier t : tiers_with_fma()) {
      cpu::set_tier(t);
      EXPECT_EQ(is_same(), !amx) << cpu::name_of(t) << " " << testing::PrintToString(p.s);
    }
    cpu::set_tier(best);
  }
  set_threads(before);
}

TEST(AttentionByPairs, LaterTokensChangeNoBitOfEarlierQueries) {
  const AttentionShape s{1, 130, 2, 20};
  const AttentionInput in(s);
  const AttentionRun before = run_attention(s, in, all_slots(bf16_cast));
  for (const std::int64_t t : {1, 16, 23, 64, 100, 129}) {
    AttentionInput other = in;
    for (std::size_t i = std::size_t(t * 3 * s.heads * s.width); i < other.qkv.size(); ++i)
      other.qkv[i] = 100 - other.qkv[i];
    const AttentionRun after = run_attention(s, other, all_slots(bf16_cast));
    const auto end = std::ptrdiff_t(t * s.heads * s.width);
    EXPECT_TRUE(std::equal(before.o.begin(), before.o.begin() + end, after.o.begin())) << t;
    EXPECT_NE(before.o, after.o);
  }
}

TEST(AttentionByPairs, AQueryHasTheSameBitsWithMoreKeysBehindIt) {
  const AttentionShape longer{1, 90, 1, 24}, shorter{1, 37, 1, 24};
  const AttentionInput in(longer);
  AttentionInput first = in;
  first.qkv.resize(std::size_t(37 * 72)), first.d_o.resize(std::size_t(37 * 24));
  const std::vector<float> whole = run_attention(longer, in, all_slots(bf16_cast)).o;
  const std::vector<float> part = run_attention(shorter, first, all_slots(bf16_cast)).o;
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST(AttentionByPairs, NanAndInfinityShowWhereTheyAreSeen) {
  const AttentionShape s{1, 70, 1, 16};
  const std::int64_t row = 48, query = 0, key = 16, value = 32;
  const auto run = [&](std::int64_t part, float number) {
    AttentionInput in(s);
    in.qkv[std::size_t(40 * row + part + 3)] = number;
    return run_attention(s, in, all_slots(bf16_cast));
  };
  const AttentionRun of_query = run(query, NAN), of_key = run(key, NAN), of_value = run(value, INFINITY);
  for (std::int64_t i = 0; i < s.time; ++i) {
    const auto at = std::size_t(i * 16 + 3);
    EXPECT_EQ(std::isnan(of_query.o[at]), i == 40) << i;
    EXPECT_EQ(std::isnan(of_query.lse[std::size_t(i)]), i == 40) << i;
    EXPECT_EQ(std::isnan(of_key.lse[std::size_t(i)]), i >= 40) << i;
    EXPECT_EQ(std::isnan(of_key.o[at]), i >= 40) << i;
    if (i >= 40) {
      EXPECT_EQ(of_value.o[at], INFINITY) << i;
    }
    // Queries of the same group multiply it by the 0 of a key that they do not see.
    if (i < 32) {
      EXPECT_TRUE(std::isfinite(of_value.o[at])) << i;
    }
    EXPECT_EQ(std::isnan(of_query.dqkv[std::size_t(i * row)]), i == 40) << i;
    EXPECT_EQ(std::isnan(of_query.dqkv[std::size_t(i * row + key)]), i <= 40) << i;
  }
}

TEST(AttentionByPairs, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 40, 1, 16};
  for (const float factor : {1e4f, 1e15f}) {
    AttentionInput in(s);
    for (float& v : in.qkv) v *= factor;
    const AttentionRun got = run_attention(s, in, all_slots(bf16_cast));
    for (const auto* results : {&got.o, &got.lse, &got.dqkv})
      for (const float v : *results) ASSERT_TRUE(std::isfinite(v)) << factor;
  }
}

TEST(AttentionByPairs, NumbersThatAreSubnormalInBf16CountAsZero) {
  const AttentionShape s{1, 20, 1, 16};
  AttentionInput in(s);
  for (std::size_t i = 0; i < in.qkv.size(); ++i)
    if (i % 48 >= 32) in.qkv[i] = 0x1p-127f;
  for (const float o : run_attention(s, in, all_slots(bf16_cast)).o) EXPECT_EQ(o, 0);
}

}  // namespace
}  // namespace mxtape::test
