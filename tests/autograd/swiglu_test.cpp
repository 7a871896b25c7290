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

TEST(Swiglu, ValueAndGradientMatchTheFormula) {
  constexpr std::size_t rows = 20, F = 13;
  const std::vector<float> x = normals(rows * 2 * F, 1, 2), dy = normals(rows * F, 2);
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {4, 5, 2 * F}, x));
  const Var y = ops::swiglu(tape, in);
  EXPECT_EQ(y.value.shape(), (Shape{4, 5, F}));
  // The argument's error counts |a| times; then e^-a (4 u at most), a sum, a reciprocal of 2 u and the
  // products.
  std::vector<double> y_bound, dx_bound(x.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t at = i / F * 2 * F + i % F;
    const double a = std::abs(x[at]), b = std::abs(x[at + F]), roundings = 2 * a + 16;
    y_bound.push_back(gamma(roundings) * a * b);
    dx_bound[at] = gamma(2 * roundings) * std::abs(dy[i]) * b * (1 + a);
    dx_bound[at + F] = gamma(roundings) * std::abs(dy[i]) * a;
  }
  const auto formula = [&](const auto& v) { return oracle::swiglu(v, F); };
  EXPECT_TRUE(within(download(device(), y.value), formula(widened(x)), y_bound));
  tape.backward(dot(tape, y, dy));
  const auto want = oracle::gradient(x, [&](const auto& v) { return oracle::dot(formula(v), dy); });
  EXPECT_TRUE(within(download(device(), tape.gradient(in)), want, dx_bound));
}

TEST(Swiglu, ALinearLayerBehindItGetsTheSameOperandFromItAgain) {
  constexpr std::int64_t M = 34, F = 64, N = 32;  // operands of whole granules of the pool, 256 bytes
  Quantizer stochastic = mxfp4;                   // the same draws must come again
  stochastic.rounding = Rounding::stochastic;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Quantizer& q : {Quantizer{}, stochastic}) {
      LinearQuant quant;
      quant.fprop_x = quant.wgrad_x = q;
      const auto step = [&](Recompute recompute) {
        device().trim();
        Parameter w{.name = "w", .value = upload(device(), {N, F}, normals(N * F, 2))};
        Tape tape(device(), Tape::Mode::training, {}, {.recompute = recompute});
        const Var x = tape.input(device().empty({M, 2 * F}, dtype));
        device().copy(x.value, upload(device(), {M, 2 * F}, normals(M * 2 * F, 3)));
        const Var y = ops::linear(tape, ops::swiglu(tape, x), w, nullptr, quant, 0);
        const std::int64_t saved = device().used_bytes();
        tape.backward(ops::cross_entropy(tape, y, upload(device(), {M}, random_tokens(M, N, 4))));
        return std::tuple(saved, download(device(), tape.gradient(x)), download(device(), w.grad));
      };
      const auto [kept_bytes, kept_dx, kept_dw] = step(Recompute::none);
      const auto [bytes, dx, dw] = step(Recompute::gelu);
      EXPECT_EQ(kept_bytes - bytes, size_of(q.is_identity() ? dtype : q.operand_dtype()) * M * F);
      EXPECT_EQ(dx, kept_dx);
      EXPECT_EQ(dw, kept_dw);
    }
}

TEST(Swiglu, LeavesAnInputAloneThatOthersHold) {
  const std::vector<float> x = normals(12, 1);
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {2, 6}, x));
  const Tensor held = in.value;
  tape.backward(dot(tape, ops::swiglu(tape, in), normals(6, 2)));
  EXPECT_EQ(download(device(), held), x);
}

TEST(Swiglu, WantsTwoHalves) {
  Tape tape(device(), Tape::Mode::evaluation);
  try {
    ops::swiglu(tape, {device().empty({2, 5})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "swiglu: x is [2, 5], want [..., 2 F]");
  }
}

}  // namespace
}  // namespace mxtape
