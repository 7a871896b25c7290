#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/oracle.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;
constexpr std::size_t B = 2, T = 4, H = 4, G = 2, D = 6, first = 1, positions = 7, width = (H + 2 * G) * D;
constexpr float eps = 0.1f;

struct Problem {
  std::vector<float> x = normals(B * T * width, 1), dy = normals(B * T * width, 2), q = normals(D, 3),
                     k = normals(D, 4), cos, sin;
  RotaryTables tables;
  Parameter q_gain{.name = "q", .value = upload(device(), {D}, q)},
      k_gain{.name = "k", .value = upload(device(), {D}, k)};
  Problem() {
    for (std::size_t i = 0; i < positions * D / 2; ++i)
      cos.push_back(std::cos(0.7f * float(i))), sin.push_back(std::sin(0.7f * float(i)));
    tables = {upload(device(), {positions, D / 2}, cos), upload(device(), {positions, D / 2}, sin)};
  }
  ParameterUse use(Parameter& p) const { return {&p, p.value}; }
  template <class V>
  auto formula(const V& x_, const V& q_, const V& k_) const {
    return oracle::rotary(x_, H, G, T, first, cos, sin, q_, k_, eps, D);
  }
};

// The mean square has 2 D roundings or fewer, halved by the root, the root and the reciprocal 3; a normed
// number 2 more, the turn 2. Backward goes through the norm three times and has 2 D more in its mean.
constexpr double roundings = 3 * (D + 5) + 2 * D + 10;

TEST(Rotary, ValueAndGradientMatchTheFormula) {
  Problem p;
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {B, T, width}, p.x));
  const Var y = ops::rotary(tape, in, H, G, p.tables, {}, {}, eps, first);
  const std::vector<double> none;
  std::vector<double> y_bound, dx_bound;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    const std::size_t head = i / D * D, pair = head + (i - head + D / 2) % D;
    y_bound.push_back(gamma(2) * (std::abs(p.x[i]) + std::abs(p.x[pair])));
    dx_bound.push_back(gamma(2) * (std::abs(p.dy[i]) + std::abs(p.dy[pair])));
  }
  EXPECT_TRUE(within(download(device(), y.value), p.formula(widened(p.x), none, none), y_bound));
  tape.backward(dot(tape, y, p.dy));
  const oracle::Values<oracle::Complex> no_gain;
  const auto want =
      oracle::gradient(p.x, [&](const auto& v) { return oracle::dot(p.formula(v, no_gain, no_gain), p.dy); });
  EXPECT_TRUE(within(download(device(), tape.gradient(in)), want, dx_bound));
}

TEST(Rotary, GradientsThroughTheNormsOfHeadsMatchTheFormula) {
  Problem p;
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {B, T, width}, p.x));
  const Var y = ops::rotary(tape, in, H, G, p.tables, p.use(p.q_gain), p.use(p.k_gain), eps, first);
  // |n| <= sqrt(D); every term of dx and of a gain's gradient is at most rstd <= 1 / sqrt(eps) times these.
  std::vector<double> y_bound, dx_bound, q_bound(D), k_bound(D);
  const double root = std::sqrt(double(D)), largest_rstd = 1 / std::sqrt(eps);
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    double gain = 0, dy = 0;
    const std::size_t head = i / D * D;
    for (std::size_t j = 0; j < D; ++j) {
      gain = std::max({gain, std::abs(double(p.q[j])), std::abs(double(p.k[j]))});
      dy += std::abs(p.dy[head + j]);
    }
    y_bound.push_back(gamma(roundings) * 2 * root * gain);
    dx_bound.push_back(gamma(roundings) * largest_rstd * 2 * gain * (dy + root * root * dy));
    q_bound[i % D] += gamma(roundings + B * T * H) * root * dy;
    k_bound[i % D] += gamma(roundings + B * T * H) * root * dy;
  }
  EXPECT_TRUE(
      within(download(device(), y.value), p.formula(widened(p.x), widened(p.q), widened(p.k)), y_bound));
  tape.backward(dot(tape, y, p.dy));
  const auto x = oracle::complex(p.x), q = oracle::complex(p.q), k = oracle::complex(p.k);
  const auto loss = [&](const auto& x_, const auto& q_, const auto& k_) {
    return oracle::dot(p.formula(x_, q_, k_), p.dy);
  };
  EXPECT_TRUE(within(download(device(), tape.gradient(in)),
                     oracle::gradient(p.x, [&](const auto& v) { return loss(v, q, k); }), dx_bound));
  EXPECT_TRUE(within(download(device(), p.q_gain.grad),
                     oracle::gradient(p.q, [&](const auto& v) { return loss(x, v, k); }), q_bound));
  EXPECT_TRUE(within(download(device(), p.k_gain.grad),
                     oracle::gradient(p.k, [&](const auto& v) { return loss(x, q, v); }), k_bound));
}

TEST(Rotary, WritesIntoAnInputThatNobodyElseHolds) {
  Problem p;
  Tape tape(device(), Tape::Mode::training);
  const Var kept = tape.input(upload(device(), {B, T, width}, p.x));
  Var given = tape.input(upload(device(), {B, T, width}, p.x));
  const void* const memory = given.value.raw();
  const Var y = ops::rotary(tape, kept, H, G, p.tables),
            z = ops::rotary(tape, std::move(given), H, G, p.tables);
  EXPECT_NE(y.value.raw(), kept.value.raw());
  EXPECT_EQ(z.value.raw(), memory);
  EXPECT_EQ(download(device(), kept.value), p.x);
  EXPECT_EQ(download(device(), z.value), download(device(), y.value));
}

TEST(Rotary, AddsToTheGradientOfAGainThatAnotherOpHasWrittenBefore) {
  Problem p;
  const auto gradients = [&](bool shared) {
    p.q_gain.has_grad = p.k_gain.has_grad = false;
    device().fill(p.k_gain.grad = device().empty({D}), 7);  // what is left there must not count
    Tape tape(device(), Tape::Mode::training);
    const Var in = tape.input(upload(device(), {B, T, width}, p.x));
    const Var y = ops::rotary(tape, in, H, G, p.tables, p.use(p.q_gain), p.use(p.k_gain), eps, first);
    // Recorded after, so its backward comes first.
    const Var other = ops::rms_norm(tape, tape.input(upload(device(), {1, D}, p.q)), p.q_gain);
    Var loss = dot(tape, y, p.dy);
    if (shared) loss = ops::add(tape, loss, dot(tape, other, p.q));
    tape.backward(loss);
    return std::pair(download(device(), p.q_gain.grad), download(device(), p.k_gain.grad));
  };
  const auto [q_alone, k_alone] = gradients(false);
  const auto [q_both, k_both] = gradients(true);
  EXPECT_EQ(k_both, k_alone);
  EXPECT_NE(q_both, q_alone);
}

TEST(Rotary, RefusesShapesThatDoNotFit) {
  Problem p;
  Tape tape(device(), Tape::Mode::evaluation);
  const auto message = [&](Shape shape, std::int64_t from, const ParameterUse& q) {
    try {
      ops::rotary(tape, {device().empty(shape)}, H, G, p.tables, q, {}, eps, from);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({B, T, width}, 0, {}), "no error");
  EXPECT_EQ(message({B, T, width - 8}, 0, {}),
            "rotary: qkv is [2, 4, 40], want [B, T, (H + 2 G) D] with H = 4, G = 2 and an even D");
  EXPECT_EQ(message({B, T, width}, 4, {}), "rotary: cos is [7, 3] and sin [7, 3], want [>= 8, 3]");
  EXPECT_EQ(message({B, T, width}, 0, p.use(p.q_gain)),
            "rotary: one gain; want those of queries and of keys, or none");
}

}  // namespace
}  // namespace mxtape
