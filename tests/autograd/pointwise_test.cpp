#include "autograd/ops.h"
#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/oracle.h"
#include "tests/support/print.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;

class GeluForm : public testing::TestWithParam<Gelu> {};
INSTANTIATE_TEST_SUITE_P(Forms, GeluForm, testing::Values(Gelu::tanh, Gelu::erf),
                         testing::PrintToStringParamName());

// Roundings on the longest path from x: 5 for the argument, 4 for tanh, erf or exp (2 ulp), 7 for the
// products and sums behind it. The argument's error enters as its relative error times |z| f'(z) < 1/2.
constexpr double gelu_roundings = 16;

TEST_P(GeluForm, ValueAndGradientMatchTheFormula) {
  const std::vector<float> x = normals(500, 1, 2), dy = normals(500, 2);
  Tape tape(device(), Tape::Mode::training);
  const Var in = tape.input(upload(device(), {20, 25}, x));
  const Var y = ops::gelu(tape, in, GetParam());
  std::vector<double> value_bound, gradient_bound;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = std::abs(x[i]), slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * a * a);
    value_bound.push_back(gamma(gelu_roundings) * a);  // a/2 (1 + |tanh|) <= a
    // |dy| ((1 + |t|)/2 + a/2 (1 - t^2) z'); 1 - t^2 <= 4 exp(-2|z|), each factor with its own roundings.
    const double t = std::tanh(std::sqrt(2 / std::numbers::pi) * (a + 0.044715 * a * a * a));
    const double bell = GetParam() == Gelu::erf ? std::exp(-a * a / 2) / std::sqrt(2 * std::numbers::pi)
                                                : 0.5 * (1 + t * t) * slope;
    gradient_bound.push_back(gamma(gelu_roundings) * std::abs(dy[i]) * (1 + a * bell));
  }
  const auto formula = [&](const auto& v) { return oracle::gelu(v, GetParam()); };
  EXPECT_TRUE(within(download(device(), y.value), formula(widened(x)), value_bound));

  tape.backward(dot(tape, y, dy));
  const auto want = oracle::gradient(x, [&](const auto& v) { return oracle::dot(formula(v), dy); });
  EXPECT_TRUE(within(download(device(), tape.gradient(in)), want, gradient_bound));
}

TEST(Add, HandsItsGradientToBothSides) {
  const std::vector<float> a = normals(12, 1), b = normals(12, 2), dy = normals(12, 3);
  Tape tape(device(), Tape::Mode::training);
  const Var p = tape.input(upload(device(), {3, 4}, a)), q = tape.input(upload(device(), {3, 4}, b));
  const Var y = ops::add(tape, p, q);
  const std::vector<float> sum = download(device(), y.value);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], a[i] + b[i]);
  tape.backward(dot(tape, y, dy));
  EXPECT_EQ(download(device(), tape.gradient(p)), dy);
  EXPECT_EQ(download(device(), tape.gradient(q)), dy);
}

TEST(Add, NamesBothShapesIfTheyDiffer) {
  Tape tape(device(), Tape::Mode::evaluation);
  const Var a{device().empty({2, 3})}, b{device().empty({3, 2})};
  try {
    ops::add(tape, a, b);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "add: a is f32 [2, 3] but b is f32 [3, 2]; they must agree");
    EXPECT_EQ(error.code(), ExitCode::internal);
  }
}

TEST(Dropout, DropsOrScalesEachElementByItsOwnDrawAndItsGradientAlike) {
  const float p = 0.25f;
  const std::vector<float> x = normals(4000, 1), dy = normals(4000, 2);
  const PassKey pass{.seed = 7, .step = 3, .first_row = 2};
  Tape tape(device(), Tape::Mode::training, pass);
  const Var in = tape.input(upload(device(), {100, 40}, x));
  const Var y = ops::dropout(tape, in, p, 5);
  const std::vector<float> got = download(device(), y.value);
  tape.backward(dot(tape, y, dy));
  const std::vector<float> dx = download(device(), tape.gradient(in));
  const DrawKey key{7, Purpose::dropout, 5, 3, 2 * 40};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool kept = key.uniform(i) >= p;
    // One rounding in 1 / (1 - p), one in the product.
    EXPECT_NEAR(got[i], kept ? x[i] / 0.75 : 0, gamma(2) * std::abs(x[i]) / 0.75);
    EXPECT_NEAR(dx[i], kept ? dy[i] / 0.75 : 0, gamma(2) * std::abs(dy[i]) / 0.75);
  }
}

TEST(Dropout, DoesNothingInEvaluationAndForZero) {
  const Var x{upload(device(), {1, 4}, normals(4, 1))};
  Tape evaluation(device(), Tape::Mode::evaluation), training(device(), Tape::Mode::training);
  EXPECT_EQ(ops::dropout(evaluation, x, 0.5f, 0).value.raw(), x.value.raw());
  EXPECT_EQ(ops::dropout(training, x, 0, 0).value.raw(), x.value.raw());
  EXPECT_THROW(ops::dropout(training, x, 1, 0), Error);
}

}  // namespace
}  // namespace mxtape
