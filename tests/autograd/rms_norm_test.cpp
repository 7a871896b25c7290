#include <cmath>
#include <tuple>

#include "autograd/ops.h"
#include "formats/quantizer.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/oracle.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;
constexpr std::size_t rows = 7, C = 19;
constexpr float eps = 0.1f;

struct Layer {
  std::vector<float> x = normals(rows * C, 1), gain = normals(C, 2), dy = normals(rows * C, 4);
  Parameter parameter{.name = "gain", .value = upload(device(), {C}, gain)};
};

TEST(RmsNorm, ValueAndGradientsMatchTheFormula) {
  Layer l;
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {rows, C}, l.x));
  const Var y = ops::rms_norm(tape, in, l.parameter, eps);

  // The mean square has a product, C - 1 additions and a division, halved by the root; then the sum with eps,
  // halved too, the root and the reciprocal.
  constexpr double of_rstd = (C + 1) / 2.0 + 2.5;
  std::vector<double> y_bound, dx_bound, dgain_bound(C);
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0, mean_gn = 0;
    for (std::size_t c = 0; c < C; ++c) squares += double(l.x[r * C + c]) * l.x[r * C + c] / C;
    const double rstd = 1 / std::sqrt(squares + eps);
    const auto n = [&](std::size_t c) { return std::abs(l.x[r * C + c]) * rstd; };
    const auto d = [&](std::size_t c) { return std::abs(l.dy[r * C + c]); };
    for (std::size_t c = 0; c < C; ++c) {
      mean_gn += std::abs(l.gain[c]) * d(c) * n(c) / C;
      dgain_bound[c] += gamma(of_rstd + 2 + rows) * d(c) * n(c);
      y_bound.push_back(gamma(of_rstd + 2) * std::abs(l.gain[c]) * n(c));
    }
    // rstd enters the projection three times; its mean has C + 3 roundings of its own, the rest 4.
    for (std::size_t c = 0; c < C; ++c)
      dx_bound.push_back(gamma(3 * of_rstd + C + 7) * rstd * (std::abs(l.gain[c]) * d(c) + n(c) * mean_gn));
  }
  const auto loss = [&](const auto& x, const auto& gain) {
    return oracle::dot(oracle::rms_norm(x, gain, eps), l.dy);
  };
  EXPECT_TRUE(
      within(download(device(), y.value), oracle::rms_norm(widened(l.x), widened(l.gain), eps), y_bound));
  tape.backward(dot(tape, y, l.dy));
  EXPECT_TRUE(within(download(device(), tape.gradient(in)),
                     oracle::gradient(l.x, [&](const auto& v) { return loss(v, oracle::complex(l.gain)); }),
                     dx_bound));
  EXPECT_TRUE(within(download(device(), l.parameter.grad),
                     oracle::gradient(l.gain, [&](const auto& v) { return loss(oracle::complex(l.x), v); }),
                     dgain_bound));
}

TEST(RmsNorm, AddsItsShareToWhatGoesAroundItAndToTheGradientOfItsGain) {
  Layer l;
  const auto gradients = [&](const auto& of) {
    Tape tape(device(), Tape::Mode::training);
    const Var in = tape.input(upload(device(), {rows, C}, l.x));
    tape.backward(dot(tape, of(tape, in), l.dy));
    return std::pair(download(device(), tape.gradient(in)), download(device(), l.parameter.grad));
  };
  const auto norm = [&](Tape& tape, const Var& v) { return ops::rms_norm(tape, v, l.parameter, eps); };
  const auto [alone, once] = gradients(norm);
  const auto [residual, summed] =
      gradients([&](Tape& tape, const Var& v) { return ops::add(tape, v, norm(tape, v)); });
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(residual[i], l.dy[i] + alone[i]) << i;
  for (std::size_t c = 0; c < C; ++c) {
    double size = 0;  // of what is added, |n| being at most sqrt(C)
    for (std::size_t r = 0; r < rows; ++r) size += std::abs(l.dy[r * C + c]) * std::sqrt(double(C));
    EXPECT_NEAR(summed[c], 2 * double(once[c]), 2 * gamma(2 * rows) * size) << c;
  }
}

TEST(RmsNorm, WantsAGainForEachColumn) {
  Layer l;
  Tape tape(device(), Tape::Mode::evaluation);
  try {
    ops::rms_norm(tape, {device().empty({rows, C + 1})}, l.parameter);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rms_norm: x is [7, 20] but 'gain' is [19], want [20]");
  }
}

TEST(RmsNorm, ALinearLayerBehindItGetsTheSameOperandFromItAgain) {
  constexpr std::int64_t M = 34, K = 64, N = 32;  // operands of whole granules of the pool, 256 bytes
  Quantizer stochastic = mxfp4;                   // the same draws must come again
  stochastic.rounding = Rounding::stochastic;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Quantizer& q : {Quantizer{}, stochastic}) {
      LinearQuant quant;
      quant.fprop_x = quant.wgrad_x = q;
      const auto step = [&](Recompute recompute) {
        device().trim();
        Parameter gain{.name = "gain", .value = upload(device(), {K}, normals(K, 1))};
        Parameter w{.name = "w", .value = upload(device(), {N, K}, normals(N * K, 2))};
        Tape tape(device(), Tape::Mode::training, {}, {.recompute = recompute});
        const Var x = tape.input(device().empty({M, K}, dtype));
        device().copy(x.value, upload(device(), {M, K}, normals(M * K, 3)));
        const Var y = ops::linear(tape, ops::rms_norm(tape, x, gain, eps), w, nullptr, quant, 0);
        const std::int64_t saved = device().used_bytes();
        tape.backward(ops::cross_entropy(tape, y, upload(device(), {M}, random_tokens(M, N, 4))));
        return std::tuple(saved, download(device(), tape.gradient(x)), download(device(), gain.grad),
                          download(device(), w.grad));
      };
      const auto [kept_bytes, kept_dx, kept_dgain, kept_dw] = step(Recompute::none);
      const auto [bytes, dx, dgain, dw] = step(Recompute::norm);
      // An operand in f32 is the norm's result itself.
      EXPECT_EQ(kept_bytes - bytes, size_of(q.is_identity() ? dtype : q.operand_dtype()) * M * K);
      EXPECT_EQ(dx, kept_dx);
      EXPECT_EQ(dgain, kept_dgain);
      EXPECT_EQ(dw, kept_dw);
    }
}

}  // namespace
}  // namespace mxtape
