#include <algorithm>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/oracle.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;
constexpr std::size_t rows = 7, C = 19;

/// Row statistics in double, for the bounds.
struct Row {
  double mean = 0, mean_magnitude = 0, rstd = 0;
  Row(const float* x, double eps) {
    for (std::size_t c = 0; c < C; ++c)
      mean += x[c] / double(C), mean_magnitude += std::abs(x[c]) / double(C);
    double variance = 0;
    for (std::size_t c = 0; c < C; ++c) variance += (x[c] - mean) * (x[c] - mean) / double(C);
    rstd = 1 / std::sqrt(variance + eps);
  }
  /// |x_hat| before cancellation: what its roundings are relative to.
  double magnitude(float x) const { return (std::abs(x) + mean_magnitude) * rstd; }
};

// C - 1 additions in each of mean, variance and the two row means of backward, and 16 for the rest.
constexpr double norm_roundings = 4 * C + 16;

TEST(LayerNorm, ValueAndGradientsMatchTheFormula) {
  const float eps = 1e-5f;
  const std::vector<float> x = normals(rows * C, 1), gain = normals(C, 2), bias = normals(C, 3),
                           dy = normals(rows * C, 4);
  Parameter g{.name = "gain", .value = upload(device(), {C}, gain)};
  Parameter b{.name = "bias", .value = upload(device(), {C}, bias)};
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {rows, C}, x));
  const Var y = ops::layer_norm(tape, in, g, &b, eps);

  std::vector<double> y_bound, dx_bound, dgain_bound(C), dbias_bound(C);
  for (std::size_t r = 0; r < rows; ++r) {
    const Row row(&x[r * C], eps);
    double mean_g = 0, mean_gx = 0;
    for (std::size_t c = 0; c < C; ++c) {
      const double magnitude = row.magnitude(x[r * C + c]), d = std::abs(dy[r * C + c]);
      mean_g += std::abs(gain[c]) * d / C;
      mean_gx += std::abs(gain[c]) * d * magnitude / C;
      dgain_bound[c] += gamma(norm_roundings + rows) * d * magnitude;
      dbias_bound[c] += gamma(rows) * d;
      y_bound.push_back(gamma(norm_roundings) * (std::abs(gain[c]) * magnitude + std::abs(bias[c])));
    }
    for (std::size_t c = 0; c < C; ++c)
      dx_bound.push_back(
          gamma(norm_roundings) * row.rstd *
          (std::abs(gain[c] * dy[r * C + c]) + mean_g + row.magnitude(x[r * C + c]) * mean_gx));
  }
  const auto loss = [&](const auto& x_, const auto& gain_, const auto& bias_) {
    return oracle::dot(oracle::layer_norm(x_, gain_, bias_, eps), dy);
  };
  const auto X = oracle::complex(x), G = oracle::complex(gain), B = oracle::complex(bias);
  EXPECT_TRUE(within(download(device(), y.value),
                     oracle::layer_norm(widened(x), widened(gain), widened(bias), eps), y_bound));
  tape.backward(dot(tape, y, dy));
  EXPECT_TRUE(within(download(device(), tape.gradient(in)),
                     oracle::gradient(x, [&](const auto& v) { return loss(v, G, B); }), dx_bound));
  EXPECT_TRUE(within(download(device(), g.grad),
                     oracle::gradient(gain, [&](const auto& v) { return loss(X, v, B); }), dgain_bound));
  EXPECT_TRUE(within(download(device(), b.grad),
                     oracle::gradient(bias, [&](const auto& v) { return loss(X, G, v); }), dbias_bound));
}

TEST(LayerNorm, AddsItsShareToWhatGoesAroundItWhoeverHoldsThat) {
  const std::vector<float> ones(C, 1), x = normals(rows * C, 1), dy = normals(rows * C, 2);
  Parameter gain{.name = "gain", .value = upload(device(), {C}, ones)};
  const auto gradient = [&](const auto& of) {
    gain.has_grad = false;
    Tape tape(device(), Tape::Mode::training);
    const Var in = tape.input(upload(device(), {rows, C}, x));
    tape.backward(dot(tape, of(tape, in), dy));
    return download(device(), tape.gradient(in));
  };
  const auto norm = [&](Tape& tape, const Var& v) { return ops::layer_norm(tape, v, gain, nullptr); };
  std::vector<float> around = gradient(norm), twice = around;
  for (std::size_t i = 0; i < dy.size(); ++i) around[i] = dy[i] + around[i], twice[i] += twice[i];
  EXPECT_EQ(gradient([&](Tape& t, const Var& v) { return ops::add(t, v, norm(t, v)); }), around);
  EXPECT_EQ(gradient([&](Tape& t, const Var& v) { return ops::add(t, norm(t, v), norm(t, v)); }), twice)
      << "both get the same dy";
}

TEST(LayerNorm, AddsToGradientsOfItsGainWhetherOrNotItsBiasHasOne) {
  const std::vector<float> ones(C, 1), x = normals(rows * C, 1), dy = normals(rows * C, 2);
  const auto gradients = [&](bool gain_has, bool bias_has) {
    Parameter g{.name = "gain", .value = upload(device(), {C}, ones), .grad = upload(device(), {C}, ones)};
    Parameter b{.name = "bias", .value = upload(device(), {C}, ones), .grad = upload(device(), {C}, ones)};
    g.has_grad = gain_has;
    b.has_grad = bias_has;
    Tape tape(device(), Tape::Mode::training);
    tape.backward(dot(tape, ops::layer_norm(tape, {upload(device(), {rows, C}, x)}, g, &b), dy));
    return std::pair(download(device(), g.grad), download(device(), b.grad));
  };
  const auto fresh = gradients(false, false);
  for (const auto& [gain_has, bias_has] : {std::pair(true, false), {false, true}, {true, true}}) {
    const auto got = gradients(gain_has, bias_has);
    for (std::size_t c = 0; c < C; ++c) {
      // One more addition than the sum over rows.
      EXPECT_NEAR(got.first[c], fresh.first[c] + gain_has,
                  gamma(rows + 1) * (std::abs(fresh.first[c]) + 4 * rows));
      EXPECT_NEAR(got.second[c], fresh.second[c] + bias_has,
                  gamma(rows + 1) * (std::abs(fresh.second[c]) + 4 * rows));
    }
  }
}

class CrossEntropyScale : public testing::TestWithParam<float> {};
INSTANTIATE_TEST_SUITE_P(MicroBatches, CrossEntropyScale, testing::Values(1.0f, 0.25f));

TEST_P(CrossEntropyScale, LossAndGradientMatchTheFormula) {
  const float scale = GetParam();
  const std::vector<float> logits = normals(rows * C, 1, 3);
  const std::vector<std::int32_t> targets = random_tokens(rows, C, 2);
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {rows, C}, logits));
  Tensor losses;
  const Var loss = ops::cross_entropy(tape, in, upload(device(), {rows}, targets), scale, &losses);

  const std::vector<double> p = oracle::softmax(widened(logits), C);
  std::vector<double> bound, losses_want, losses_bound;
  double mean = 0, mean_bound = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto [low, high] = std::minmax_element(&logits[r * C], &logits[(r + 1) * C]);
    const double roundings = 2 * (*high - *low + 4) + C + 4;  // as in softmax, and the factor scale / rows
    const auto target = std::size_t(targets[r]);
    for (std::size_t c = 0; c < C; ++c)
      bound.push_back(gamma(roundings + 2) * scale / rows * (p[r * C + c] + (c == target)));
    losses_want.push_back(-std::log(p[r * C + target]));
    // max + log(sum) - logit: the sum's relative error is the log's absolute one; then three roundings.
    losses_bound.push_back(gamma(roundings) + gamma(8) * (std::abs(*high) + std::abs(*low) + std::log(C)));
    mean += losses_want.back() / rows;
    mean_bound += (losses_bound.back() + gamma(rows + 1) * losses_want.back()) / rows;
  }
  EXPECT_TRUE(within(download(device(), losses), losses_want, losses_bound));
  EXPECT_NEAR(download(device(), loss.value)[0], mean, mean_bound);
  tape.backward(loss);
  const auto want = oracle::gradient(
      logits, [&](const auto& v) { return double(scale) * oracle::cross_entropy(v, targets); });
  EXPECT_TRUE(within(download(device(), tape.gradient(in)), want, bound));
}

TEST(CrossEntropy, KeepsTheLogitsInEvaluationAndTakesTheirPlaceInTraining) {
  const std::vector<float> logits = normals(rows * C, 1);
  const Tensor targets = upload(device(), {rows}, random_tokens(rows, C, 2));
  Tape evaluation(device(), Tape::Mode::evaluation), training(device(), Tape::Mode::training);
  const Var kept{upload(device(), {rows, C}, logits)};
  ops::cross_entropy(evaluation, kept, targets);
  EXPECT_EQ(download(device(), kept.value), logits);

  const Var replaced = training.input(upload(device(), {rows, C}, logits));
  const std::int64_t before = device().used_bytes();
  const Var loss = ops::cross_entropy(training, replaced, targets);
  EXPECT_LT(device().used_bytes() - before, replaced.value.bytes());
  training.backward(loss);
  EXPECT_EQ(training.gradient(replaced).raw(), replaced.value.raw());
}

TEST(CrossEntropy, RefusesToBeAnythingButTheLoss) {
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {rows, C}, normals(rows * C, 1)));
  const Var loss = ops::cross_entropy(tape, in, upload(device(), {rows}, random_tokens(rows, C, 2)));
  EXPECT_THROW(tape.backward(ops::gelu(tape, loss, Gelu::erf)), Error);
}

TEST(Embedding, ValueAndGradientsMatchTheFormula) {
  constexpr std::size_t B = 3, T = 5, V = 4, context = 8;
  const std::vector<float> table = normals(V * C, 1), positions = normals(context * C, 2),
                           dy = normals(B * T * C, 3);
  const std::vector<std::int32_t> tokens = random_tokens(B * T, V, 4);
  Parameter t{.name = "table", .value = upload(device(), {V, C}, table)};
  Parameter p{.name = "positions", .value = upload(device(), {context, C}, positions)};
  Tape tape(device(), Tape::Mode::training);
  const Var y = ops::embedding(tape, upload(device(), {B, T}, tokens), t, &p);
  const std::vector<float> got = download(device(), y.value);
  for (std::size_t r = 0; r < B * T; ++r)
    for (std::size_t c = 0; c < C; ++c)
      EXPECT_EQ(got[r * C + c], table[std::size_t(tokens[r]) * C + c] + positions[r % T * C + c]);

  tape.backward(dot(tape, y, dy));
  const auto loss = [&](const auto& table_, const auto& positions_) {
    return oracle::dot(oracle::embedding(tokens, T, table_, positions_, C), dy);
  };
  double total = 0;
  for (float d : dy) total += std::abs(d);
  // At most B T summands each, whose magnitudes add up to less than all of them.
  EXPECT_TRUE(
      within(download(device(), t.grad),
             oracle::gradient(table, [&](const auto& v) { return loss(v, oracle::complex(positions)); }),
             std::vector(V * C, gamma(B * T) * total)));
  EXPECT_TRUE(
      within(download(device(), p.grad),
             oracle::gradient(positions, [&](const auto& v) { return loss(oracle::complex(table), v); }),
             std::vector(context * C, gamma(B) * total)));
}

}  // namespace
}  // namespace mxtape
