#include <algorithm>

#include "autograd/ops.h"
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

Magnitudes magnitudes(const std::vector<float>& qkv, const std::vector<float>& dy, const AttentionShape& s) {
  const auto B = std::size_t(s.batch), T = std::size_t(s.time), H = std::size_t(s.heads),
             D = std::size_t(s.width);
  const double root = std::sqrt(double(D));
  Magnitudes m{std::vector<double>(B * T * H * D), std::vector<double>(B * T * 3 * H * D)};
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t h = 0; h < H; ++h) {
      const auto in = [&](std::size_t part, std::size_t t, std::size_t d) {
        return ((b * T + t) * 3 + part) * H * D + h * D + d;
      };
      const auto out = [&](std::size_t t, std::size_t d) { return (b * T + t) * H * D + h * D + d; };
      for (std::size_t i = 0; i < T; ++i) {
        std::vector<double> score(i + 1), size(i + 1), dp(i + 1);
        for (std::size_t j = 0; j <= i; ++j)
          for (std::size_t d = 0; d < D; ++d) {
            score[j] += double(qkv[in(0, i, d)]) * qkv[in(1, j, d)] / root;
            size[j] += std::abs(double(qkv[in(0, i, d)]) * qkv[in(1, j, d)]) / root;
            dp[j] += std::abs(double(dy[out(i, d)]) * qkv[in(2, j, d)]);
          }
        const std::vector<double> p = oracle::softmax_row(score.data(), i + 1);
        const double largest = *std::max_element(size.begin(), size.end());
        // A score is off by gamma(D + 2) of its magnitude, score - max by u times both; exp 4, sum T,
        // quotient 1; once for the numerator, once for the sum.
        m.p_roundings = std::max(m.p_roundings, 2 * ((double(D) + 4) * largest + 4) + double(T) + 2);
        double delta = 0;
        for (std::size_t j = 0; j <= i; ++j) delta += p[j] * dp[j];
        for (std::size_t j = 0; j <= i; ++j)
          for (std::size_t d = 0; d < D; ++d) {
            const double ds = p[j] * (dp[j] + delta) / root;
            m.o[out(i, d)] += p[j] * std::abs(qkv[in(2, j, d)]);
            m.dqkv[in(0, i, d)] += ds * std::abs(qkv[in(1, j, d)]);
            m.dqkv[in(1, j, d)] += ds * std::abs(qkv[in(0, i, d)]);
            m.dqkv[in(2, j, d)] += p[j] * std::abs(dy[out(i, d)]);
          }
      }
    }
  return m;
}

class Attention : public testing::TestWithParam<AttentionShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(AttentionShape{2, 5, 2, 4}, AttentionShape{1, 1, 1, 3},
                                         AttentionShape{1, 17, 3, 8}));

TEST_P(Attention, ValueAndGradientMatchTheFormula) {
  const AttentionShape s = GetParam();
  const std::int64_t width = s.heads * s.width;
  const std::vector<float> qkv = normals(s.batch * s.time * 3 * width, 1),
                           dy = normals(s.batch * s.time * width, 2);
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {s.batch, s.time, 3 * width}, qkv));
  const Var o = ops::causal_attention(tape, in, s.heads, {}, 0);

  const Magnitudes m = magnitudes(qkv, dy, s);
  std::vector<double> o_bound, dqkv_bound;
  for (double v : m.o) o_bound.push_back(gamma(m.p_roundings + double(s.time) + 1) * v);
  // P enters dS twice (itself and delta); dP sums D, delta D or T, dQ and dK sum T.
  const double roundings = 2 * m.p_roundings + double(2 * s.width + 2 * s.time + 6);
  for (double v : m.dqkv) dqkv_bound.push_back(gamma(roundings) * v);
  EXPECT_TRUE(within(download(device(), o.value), oracle::causal_attention(widened(qkv), s), o_bound));

  tape.backward(dot(tape, o, dy));
  const auto want =
      oracle::gradient(qkv, [&](const auto& v) { return oracle::dot(oracle::causal_attention(v, s), dy); });
  EXPECT_TRUE(within(download(device(), tape.gradient(in)), want, dqkv_bound));
}

TEST(CausalAttention, DoesNotSeeLaterTokens) {
  std::vector<float> qkv = normals(6 * 24, 1);
  const auto run = [&] {
    Tape tape(device(), Tape::Mode::evaluation);
    return download(device(),
                    ops::causal_attention(tape, {upload(device(), {1, 6, 24}, qkv)}, 2, {}, 0).value);
  };
  const std::vector<float> before = run();
  for (std::size_t i = 4 * 24; i < qkv.size(); ++i) qkv[i] += 1;
  const std::vector<float> after = run();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 4 * 8, after.begin()));
  EXPECT_NE(before, after);
}

TEST(CausalAttention, NamesTheShapeThatItCannotSplit) {
  Tape tape(device(), Tape::Mode::evaluation);
  EXPECT_THROW(ops::causal_attention(tape, {device().empty({1, 4, 25})}, 2, {}, 0), Error);
}

}  // namespace
}  // namespace mxtape
