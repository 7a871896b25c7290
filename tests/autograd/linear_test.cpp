#include "autograd/ops.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/oracle.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;

std::vector<float> magnitudes(std::vector<float> x) {
  for (float& v : x) v = std::abs(v);
  return x;
}

struct Layer {
  static constexpr std::int64_t M = 9, K = 13, N = 7;
  std::vector<float> x = normals(M * K, 1), w = normals(N * K, 2), bias = normals(N, 3),
                     dy = normals(M * N, 4);

  template <class T>
  static T loss(const oracle::Values<T>& x, const oracle::Values<T>& w, const oracle::Values<T>& bias,
                const std::vector<float>& dy) {
    return oracle::dot(oracle::linear(x, w, bias, N, K), dy);
  }
  std::vector<double> dx_want() const {
    return oracle::gradient(
        x, [&](const auto& v) { return loss(v, oracle::complex(w), oracle::complex(bias), dy); });
  }
  std::vector<double> dw_want() const {
    return oracle::gradient(
        w, [&](const auto& v) { return loss(oracle::complex(x), v, oracle::complex(bias), dy); });
  }
  std::vector<double> db_want() const {
    return oracle::gradient(
        bias, [&](const auto& v) { return loss(oracle::complex(x), oracle::complex(w), v, dy); });
  }
  /// The gradients are linear: their magnitudes are those of a layer of magnitudes.
  Layer of_magnitudes() const { return {magnitudes(x), magnitudes(w), magnitudes(bias), magnitudes(dy)}; }
};

std::vector<double> scaled(std::vector<double> x, double factor) {
  for (double& v : x) v *= factor;
  return x;
}

TEST(Linear, ValueAndGradientsMatchTheFormula) {
  const Layer l, m = l.of_magnitudes();
  Parameter w{.name = "w", .value = upload(device(), {l.N, l.K}, l.w)};
  Parameter b{.name = "b", .value = upload(device(), {l.N}, l.bias)};
  Tape tape(device(), Tape::Mode::training);
  const Var x = tape.input(upload(device(), {3, 3, l.K}, l.x));
  const Var y = ops::linear(tape, x, w, &b, {}, 0);
  EXPECT_EQ(y.value.shape(), (Shape{3, 3, l.N}));
  EXPECT_TRUE(within(
      download(device(), y.value), oracle::linear(widened(l.x), widened(l.w), widened(l.bias), l.N, l.K),
      scaled(oracle::linear(widened(m.x), widened(m.w), widened(m.bias), l.N, l.K), dot_bound(l.K + 1, 1))));
  tape.backward(dot(tape, y, l.dy));
  EXPECT_TRUE(
      within(download(device(), tape.gradient(x)), l.dx_want(), scaled(m.dx_want(), dot_bound(l.N, 1))));
  EXPECT_TRUE(within(download(device(), w.grad), l.dw_want(), scaled(m.dw_want(), dot_bound(l.M, 1))));
  EXPECT_TRUE(within(download(device(), b.grad), l.db_want(), scaled(m.db_want(), dot_bound(l.M, 1))));
}

TEST(Linear, TheBoundsSeeADroppedProduct) {
  Layer l;
  const Layer m = l.of_magnitudes();
  const std::vector<double> dx = l.dx_want(), dw = l.dw_want();
  for (std::int64_t k = 0; k < l.K; ++k) l.w[std::size_t((l.N - 1) * l.K + k)] = 0;  // the last of dx's N
  for (std::int64_t k = 0; k < l.K; ++k) l.x[std::size_t((l.M - 1) * l.K + k)] = 0;  // the last of dw's M
  const auto narrowed = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
  EXPECT_FALSE(within(narrowed(l.dx_want()), dx, scaled(m.dx_want(), dot_bound(l.N, 1))));
  EXPECT_FALSE(within(narrowed(l.dw_want()), dw, scaled(m.dw_want(), dot_bound(l.M, 1))));
}

TEST(Linear, ComputesNoGradientForAnInputThatWantsNone) {
  const Layer l;
  Parameter w{.name = "w", .value = upload(device(), {l.N, l.K}, l.w)};
  Tape tape(device(), Tape::Mode::training);
  const Var y = ops::linear(tape, {upload(device(), {l.M, l.K}, l.x)}, w, nullptr, {}, 0);
  tape.backward(dot(tape, y, l.dy));
  EXPECT_TRUE(w.has_grad);
  EXPECT_FALSE(w.copies.dgrad.elements);
}

TEST(Linear, AddsToTheGradientOfEarlierMicroBatches) {
  const Layer l;
  Parameter w{.name = "w", .value = upload(device(), {l.N, l.K}, l.w)};
  Parameter b{.name = "b", .value = upload(device(), {l.N}, l.bias)};
  std::vector<float> once_w, once_b;
  for (int micro_step = 0; micro_step < 2; ++micro_step) {
    Tape tape(device(), Tape::Mode::training);
    tape.backward(dot(tape, ops::linear(tape, {upload(device(), {l.M, l.K}, l.x)}, w, &b, {}, 0), l.dy));
    if (micro_step == 0) once_w = download(device(), w.grad), once_b = download(device(), b.grad);
  }
  const std::vector<float> twice_w = download(device(), w.grad), twice_b = download(device(), b.grad);
  const std::vector<double> w_size = l.of_magnitudes().dw_want(), b_size = l.of_magnitudes().db_want();
  for (std::size_t i = 0; i < twice_w.size(); ++i)
    EXPECT_NEAR(twice_w[i], 2 * once_w[i], dot_bound(2 * l.M, 2 * w_size[i]));
  for (std::size_t i = 0; i < twice_b.size(); ++i)
    EXPECT_NEAR(twice_b[i], 2 * once_b[i], dot_bound(2 * l.M, 2 * b_size[i]));
}

TEST(Linear, NamesTheShapesThatDoNotFit) {
  Parameter w{.name = "up.weight", .value = device().empty({3, 5})};
  Tape tape(device(), Tape::Mode::evaluation);
  try {
    ops::linear(tape, {device().empty({2, 4})}, w, nullptr, {}, 0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "linear: x is [2, 4] but 'up.weight' is [3, 5]; their last axes must agree");
  }
  Parameter b{.name = "up.bias", .value = device().empty({4})};
  EXPECT_THROW(ops::linear(tape, {device().empty({2, 5})}, w, &b, {}, 0), Error);
}

}  // namespace
}  // namespace mxtape
