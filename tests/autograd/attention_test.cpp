#include <algorithm>

#include "autograd/ops.h"
#include "formats/quantize.h"
#include "kernels/attention/slots.h"
#include "tests/support/attention_run.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/oracle.h"
#include "tests/support/print.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;

/// The formulas of attention and its gradient with every term replaced by its magnitude: what roundings are
/// relative to. P itself has the relative error `p_roundings`.
struct Magnitudes {
  std::vector<double> o, dqkv;
  double p_roundings = 0;
};

/// Which row of P sees what, and what it is multiplied by: as oracle::attention() reads them.
struct Case {
  AttentionShape s;
  oracle::AttentionMasks masks{};
  std::int64_t seen(std::int64_t b, std::int64_t i) const {
    const std::int64_t length = masks.lengths.empty() ? s.keys : masks.lengths[std::size_t(b)];
    return s.mask == AttentionMask::none ? length : std::min(length, s.first_position + i + 1);
  }
  std::int64_t q_row() const { return (s.heads + (s.own_keys ? 0 : 2 * s.kv_heads)) * s.width; }
  std::int64_t q(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return (b * s.time + t) * q_row() + h * s.width;
  }
  /// Of K (0) or V (1) of query head h, in qkv followed by kv.
  std::int64_t key(std::int64_t part, std::int64_t b, std::int64_t t, std::int64_t h) const {
    const std::int64_t place = (part * s.kv_heads + h / (s.heads / s.kv_heads)) * s.width;
    if (!s.own_keys) return q(b, t, 0) + s.heads * s.width + place;
    return s.batch * s.time * q_row() + (b * s.keys + t) * 2 * s.kv_heads * s.width + place;
  }
};

/// `x` is qkv followed by kv.
Magnitudes magnitudes(const std::vector<float>& x, const std::vector<float>& dy, const Case& c) {
  const AttentionShape& s = c.s;
  const double root = std::sqrt(double(s.width));
  Magnitudes m{std::vector<double>(dy.size()), std::vector<double>(x.size())};
  const auto at = [&](std::int64_t i) { return double(x[std::size_t(i)]); };
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.time; ++i) {
        const auto seen = std::size_t(c.seen(b, i));
        const std::int64_t out = ((b * s.time + i) * s.heads + h) * s.width, q = c.q(b, i, h);
        std::vector<double> score(seen), size(seen), dp(seen), factor(seen, 1);
        for (std::size_t j = 0; j < seen; ++j) {
          const std::int64_t k = c.key(0, b, std::int64_t(j), h), v = c.key(1, b, std::int64_t(j), h);
          if (!c.masks.factors.empty())
            factor[j] = c.masks.factors[std::size_t(((b * s.heads + h) * s.time + i) * s.keys) + j];
          for (std::int64_t d = 0; d < s.width; ++d) {
            score[j] += at(q + d) * at(k + d) / root;
            size[j] += std::abs(at(q + d) * at(k + d)) / root;
            dp[j] += factor[j] * std::abs(dy[std::size_t(out + d)] * at(v + d));
          }
        }
        const std::vector<double> p = oracle::softmax_row(score.data(), seen);
        const double largest = *std::max_element(size.begin(), size.end());
        // A score is off by gamma(D + 2) of its magnitude, score - max by u times both; exp 4, sum of all
        // keys, quotient 1; once for the numerator, once for the sum.
        m.p_roundings =
            std::max(m.p_roundings, 2 * ((double(s.width) + 4) * largest + 4) + double(s.keys) + 2);
        double delta = 0;
        for (std::size_t j = 0; j < seen; ++j) delta += p[j] * dp[j];
        for (std::size_t j = 0; j < seen; ++j)
          for (std::int64_t d = 0; d < s.width; ++d) {
            const std::int64_t k = c.key(0, b, std::int64_t(j), h), v = c.key(1, b, std::int64_t(j), h);
            const double ds = p[j] * (dp[j] + delta) / root;
            m.o[std::size_t(out + d)] += factor[j] * p[j] * std::abs(at(v + d));
            m.dqkv[std::size_t(q + d)] += ds * std::abs(at(k + d));
            m.dqkv[std::size_t(k + d)] += ds * std::abs(at(q + d));
            m.dqkv[std::size_t(v + d)] += factor[j] * p[j] * std::abs(dy[std::size_t(out + d)]);
          }
      }
  return m;
}

AttentionShape grouped(AttentionShape s, std::int64_t kv_heads) {
  s.kv_heads = kv_heads;
  return s;
}
AttentionShape crossed(AttentionShape s, std::int64_t keys) {
  s.own_keys = true, s.mask = AttentionMask::none, s.keys = s.room = keys;
  return s;
}
AttentionShape cached(AttentionShape s, std::int64_t keys) {
  s.own_keys = true, s.keys = s.room = keys, s.first_position = keys - s.time;
  return s;
}
AttentionShape unmasked(AttentionShape s) {
  s.mask = AttentionMask::none;
  return s;
}
AttentionShape dropping(AttentionShape s) {
  s.dropout = 0.375f;
  return s;
}

constexpr std::uint32_t tensor_id = 8;
const PassKey pass{.seed = 3, .step = 2, .first_row = 34};  // behind sequences of as many rows

class Attention : public testing::TestWithParam<AttentionShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(AttentionShape{2, 5, 2, 4}, AttentionShape{1, 1, 1, 3},
                                         AttentionShape{1, 17, 3, 8}, grouped({2, 17, 4, 6}, 2),
                                         grouped({2, 5, 6, 4}, 1), unmasked({2, 17, 2, 4}),
                                         crossed({2, 5, 4, 4}, 9), crossed(grouped({2, 5, 4, 4}, 2), 3),
                                         cached(grouped({2, 3, 4, 4}, 2), 11),
                                         dropping(grouped({2, 17, 4, 4}, 2)),
                                         dropping(crossed({2, 5, 2, 4}, 9))));

/// With Q, K and V cast in all of their slots: straight through, the gradient is the formula's where they are
/// cast to. (If P were rounded it would not be: backward takes delta from O.)
void expect_formula(const Case& c, const Quantizer& cast = {}) {
  const AttentionShape& s = c.s;
  using Slots = AttentionQuant;
  Slots quant;
  for (const AttentionField slot :
       {&Slots::qk_q, &Slots::qk_k, &Slots::pv_v, &Slots::dp_v, &Slots::dq_k, &Slots::dk_q})
    quant.*slot = cast;
  const std::int64_t in_size = s.batch * s.time * c.q_row(), kv_row = 2 * s.kv_heads * s.width;
  const std::int64_t size = in_size + (s.own_keys ? s.batch * s.keys * kv_row : 0);
  std::vector<float> x = normals(size, 1);
  const std::vector<float> dy = normals(s.batch * s.time * s.heads * s.width, 2);
  const std::vector<float> qkv(x.begin(), x.begin() + in_size), keys(x.begin() + in_size, x.end());
  Tape tape(device(), Tape::Mode::training, pass);
  const Var in = tape.input(upload(device(), {s.batch, s.time, c.q_row()}, qkv));
  const Var kv = s.own_keys ? tape.input(upload(device(), {s.batch, s.keys, kv_row}, keys)) : Var{};
  const Tensor lengths = c.masks.lengths.empty() ? Tensor{} : upload(device(), {s.batch}, c.masks.lengths);
  const Var o = ops::attention(tape, in, s, quant, tensor_id, kv, lengths);

  quantize_reference(x.data(), x.data(), 1, size, Axis::row, cast, {});
  const Magnitudes m = magnitudes(x, dy, c);
  std::vector<double> o_bound, bound;
  const double dropped = s.dropout == 0 ? 0 : 2;  // 1 - p and the quotient
  for (double v : m.o) o_bound.push_back(gamma(m.p_roundings + dropped + double(s.keys) + 1) * v);
  // P enters dS twice (itself and delta); dP sums D, delta D or the keys, dQ the keys, dK the queries of a
  // group.
  const std::int64_t terms = std::max(s.keys, s.time * (s.heads / s.kv_heads));
  const double roundings = 2 * (m.p_roundings + dropped) + double(2 * s.width + s.keys + terms + 6);
  for (double v : m.dqkv) bound.push_back(gamma(roundings) * v);
  const auto formula = [&](const auto& values) {
    using Numbers = std::decay_t<decltype(values)>;
    const auto end = values.begin() + std::ptrdiff_t(in_size);
    return oracle::attention(Numbers(values.begin(), end), s, Numbers(end, values.end()), c.masks);
  };
  EXPECT_TRUE(within(download(device(), o.value), formula(widened(x)), o_bound));

  tape.backward(dot(tape, o, dy));
  const auto want = oracle::gradient(x, [&](const auto& v) { return oracle::dot(formula(v), dy); });
  std::vector<float> got = download(device(), tape.gradient(in));
  if (s.own_keys)
    for (const float v : download(device(), tape.gradient(kv))) got.push_back(v);
  EXPECT_TRUE(within(got, want, bound));
}

/// What is dropped, by the numbers of P in [B, H, T, keys] of the global batch.
std::vector<double> factors(const AttentionShape& s) {
  if (s.dropout == 0) return {};
  const std::int64_t size = s.batch * s.heads * s.time * s.keys, before = pass.first_row / s.time;
  const DrawKey key{pass.seed, Purpose::dropout, tensor_id + 12, pass.step,
                    std::uint64_t(before * s.heads * s.time * s.keys)};
  std::vector<double> all;
  for (std::int64_t i = 0; i < size; ++i)
    all.push_back(key.uniform(std::uint64_t(i)) >= s.dropout ? 1 / (1 - double(s.dropout)) : 0);
  return all;
}

TEST_P(Attention, ValueAndGradientMatchTheFormula) {
  expect_formula({GetParam(), {{}, factors(GetParam())}});
}

TEST(AttentionOverKeys, OfOneLengthForEachSequenceMatchesTheFormula) {
  expect_formula({crossed({3, 5, 4, 4}, 9), {{9, 1, 4}, {}}});
  expect_formula({grouped({2, 7, 4, 4}, 2), {{3, 7}, {}}});
}

TEST(AttentionOverKeys, CastQueriesKeysAndValuesMatchTheFormulaWhereTheyAreCastTo) {
  for (const AttentionShape& s : {crossed({2, 5, 4, 4}, 9), cached(grouped({2, 3, 4, 4}, 2), 11)})
    expect_formula({s}, parse_quantizer("e3m2"));
  expect_formula({crossed({3, 5, 4, 4}, 9), {{9, 1, 4}, {}}}, parse_quantizer("e3m2"));
}

/// A quantizer of its own in every slot, stochastic ones among them.
AttentionQuant mixture() {
  AttentionQuant quant;
  for (int place = 0; place < 12; ++place)
    quant.*attention_slots[std::size_t(place)].field = parse_quantizer(
        fmt::format("e3m{} block={} scale=e8m0 round=stochastic", place % 3 + 1, 8 << place / 3));
  return quant;
}

// The calls are held to their composition, slot by slot, in tests/kernels/attention_shapes_test.cpp.
TEST(AttentionOverKeys, TheTwelveSlotsAndTheirDrawsAreThoseOfTheCalls) {
  for (const AttentionShape& s : {crossed({2, 34, 4, 16}, 50), cached(grouped({2, 5, 4, 16}, 2), 40)}) {
    AttentionInput in(s);
    in.lengths = {std::int32_t(s.keys), std::int32_t(s.keys) - 7};
    const DrawKey draws{.seed = pass.seed,
                        .tensor_id = tensor_id,
                        .step = pass.step,
                        .first_element = std::uint64_t(pass.first_row)};
    const AttentionRun want = run_attention(s, in, mixture(), draws);
    for (const auto& [q_wanted, kv_wanted] : {std::pair(true, true), {true, false}, {false, true}}) {
      Tape tape(device(), Tape::Mode::training, pass);
      const Tensor queries = upload(device(), {s.batch, s.time, s.q_row()}, in.qkv),
                   keys = upload(device(), {s.batch, s.keys, 2 * s.kv_heads * s.width}, in.kv);
      const Var q = q_wanted ? tape.input(queries) : Var{queries},
                kv = kv_wanted ? tape.input(keys) : Var{keys};
      const Var o =
          ops::attention(tape, q, s, mixture(), tensor_id, kv, upload(device(), {s.batch}, in.lengths));
      EXPECT_EQ(download(device(), o.value), want.o);
      tape.backward(dot(tape, o, in.d_o));
      if (q_wanted) {
        EXPECT_EQ(download(device(), tape.gradient(q)), want.dqkv);
      }
      if (kv_wanted) {
        EXPECT_EQ(download(device(), tape.gradient(kv)), want.dkv);
      }
    }
  }
}

TEST(AttentionOverKeys, NothingIsDroppedInEvaluation) {
  const std::vector<float> qkv = normals(6 * 24, 1);
  const auto run = [&](AttentionShape s) {
    Tape tape(device(), Tape::Mode::evaluation);
    return download(device(), ops::attention(tape, {upload(device(), {1, 6, 24}, qkv)}, s, {}, 0).value);
  };
  EXPECT_EQ(run({1, 6, 2, 4}), run(dropping({1, 6, 2, 4})));
}

TEST(CausalAttention, DoesNotSeeLaterTokens) {
  std::vector<float> qkv = normals(6 * 24, 1);
  const auto run = [&] {
    Tape tape(device(), Tape::Mode::evaluation);
    return download(device(),
                    ops::attention(tape, {upload(device(), {1, 6, 24}, qkv)}, {1, 6, 2, 4}, {}, 0).value);
  };
  const std::vector<float> before = run();
  for (std::size_t i = 4 * 24; i < qkv.size(); ++i) qkv[i] += 1;
  const std::vector<float> after = run();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 4 * 8, after.begin()));
  EXPECT_NE(before, after);
}

TEST(AttentionErrors, NameWhatDoesNotFit) {
  Tape tape(device(), Tape::Mode::training);
  const auto message = [&](const Shape& qkv, const AttentionShape& s, const Shape& kv = {}) -> std::string {
    try {
      const Var keys = kv.rank ? tape.input(device().empty(kv)) : Var{};
      ops::attention(tape, tape.input(device().empty(qkv)), s, {}, 0, keys);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({1, 4, 25}, {1, 4, 2, 4}), "attention: qkv is [1, 4, 25], want [1, 4, 24]");
  EXPECT_EQ(message({1, 4, 24}, grouped({1, 4, 2, 4}, 3)),
            "attention: 3 key heads for 2 query heads; want a divisor of their number");
  EXPECT_EQ(message({1, 4, 8}, crossed({1, 4, 2, 4}, 3)),
            "attention: keys and values are with the queries, want [1, 3, 16]");
  AttentionShape room = crossed({1, 4, 2, 4}, 3);
  room.room = 5;
  EXPECT_EQ(message({1, 4, 8}, room, {1, 5, 16}),
            "attention: 3 keys with room for 5; gradients want no more room");
  AttentionShape late = cached({1, 4, 2, 4}, 6);
  late.first_position = 3;
  EXPECT_EQ(message({1, 4, 8}, late, {1, 6, 16}),
            "attention: 4 queries from position 3 on, 6 keys; each query wants the key at its position");
}

}  // namespace
}  // namespace mxtape
