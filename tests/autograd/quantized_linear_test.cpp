// With quantizers on, gradients are not derivatives (straight-through): the layer is held against the
// composition quantize-then-multiply written out from NUMERICS' table of slots, axes and draws.
#include <utility>

#include "autograd/operands.h"
#include "autograd/slots.h"
#include "formats/quantize.h"
#include "tests/support/closeness.h"
#include "tests/support/counting_backend.h"
#include "tests/support/device.h"
#include "tests/support/print.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;

constexpr std::int64_t M = 70, K = 48, N = 40;  // ragged blocks of 32 along every axis
constexpr std::uint32_t id = 192;
constexpr PassKey pass{.seed = 11, .step = 6, .first_row = 140};
constexpr std::uint64_t version = 4;

/// A matrix of products with the sums of their magnitudes.
struct Product {
  std::vector<double> values, magnitudes;
  std::vector<double> bounds(std::int64_t terms) const {
    std::vector<double> b;
    for (double m : magnitudes) b.push_back(dot_bound(double(terms), m));
    return b;
  }
};

/// c[i, j] = sum over k of a(i, k) b(k, j).
template <class A, class B>
Product multiply(std::int64_t rows, std::int64_t cols, std::int64_t terms, const A& a, const B& b) {
  Product c;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < terms; ++k)
        sum += a(i, k) * b(k, j), magnitude += std::abs(a(i, k) * b(k, j));
      c.values.push_back(sum);
      c.magnitudes.push_back(magnitude);
    }
  return c;
}

struct Data {
  std::vector<float> x = normals(M * K, 1), w = normals(N * K, 2), dy = normals(M * N, 3);
};

struct Results {
  Product y, dx, dw;
};

std::vector<double> rounded(const std::vector<float>& x, std::int64_t rows, std::int64_t cols, Axis axis,
                            const Quantizer& q, const DrawKey& draws) {
  std::vector<float> y(x.size());
  const double multiplier = quantize_reference(y.data(), x.data(), rows, cols, axis, q, draws);
  std::vector<double> values;
  for (float v : y) values.push_back(v * multiplier);
  return values;
}

Results composed(const Data& d, const LinearQuant& q) {
  const DrawKey x_draws{pass.seed, Purpose::rounding, id, pass.step, pass.first_row * K};
  const DrawKey w_draws{pass.seed, Purpose::rounding, id + 1, std::uint32_t(version), 0};
  const DrawKey dy_draws{pass.seed, Purpose::rounding, id + 2, pass.step, pass.first_row * N};
  const auto at = [](const std::vector<double>& m, std::int64_t cols) {
    return [&m, cols](std::int64_t i, std::int64_t j) { return m[std::size_t(i * cols + j)]; };
  };
  const auto flipped = [](auto m) { return [m](std::int64_t i, std::int64_t j) { return m(j, i); }; };

  const auto fprop_x = rounded(d.x, M, K, Axis::cols, q.fprop_x, x_draws);
  const auto fprop_w = rounded(d.w, N, K, Axis::cols, q.fprop_w, w_draws);
  const auto dgrad_dy = rounded(d.dy, M, N, Axis::cols, q.dgrad_dy, dy_draws);
  const auto dgrad_w = rounded(d.w, N, K, Axis::rows, q.dgrad_w, w_draws);
  const auto wgrad_dy = rounded(d.dy, M, N, Axis::rows, q.wgrad_dy, dy_draws);
  const auto wgrad_x = rounded(d.x, M, K, Axis::rows, q.wgrad_x, x_draws);
  return {multiply(M, N, K, at(fprop_x, K), flipped(at(fprop_w, K))),
          multiply(M, K, N, at(dgrad_dy, N), at(dgrad_w, K)),
          multiply(N, K, M, flipped(at(wgrad_dy, N)), at(wgrad_x, K))};
}

struct Computed {
  std::vector<float> y, dx, dw;
};

Computed computed(const Data& d, const LinearQuant& q, PassKey key = pass, std::uint64_t weight = version) {
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w), .version = weight};
  Tape tape(device(), Tape::Mode::training, key);
  const Var x = tape.input(upload(device(), {M, K}, d.x));
  const Var y = ops::linear(tape, x, w, nullptr, q, id);
  tape.backward(dot(tape, y, d.dy));
  return {download(device(), y.value), download(device(), tape.gradient(x)), download(device(), w.grad)};
}

LinearQuant everywhere(const Quantizer& q) { return {q, q, q, q, q, q, {}, {}, {}}; }

Quantizer stochastic(Quantizer q) {
  q.rounding = Rounding::stochastic;
  return q;
}

/// A different quantizer in every slot.
LinearQuant six_quantizers() {
  return {mxfp4, mxfp6_e3m2, mx(e2m1, 16, ScaleRule::ceil), mx(int4), mxfp6_e2m3, mx(e3m0), {}, {}, {}};
}

class ExactFormat : public testing::TestWithParam<Quantizer> {};
INSTANTIATE_TEST_SUITE_P(Formats, ExactFormat,
                         testing::Values(mxfp4, mxfp6_e2m3, mx(e2m1, 16), stochastic(mxfp4),
                                         stochastic(mxfp6_e2m3)),
                         [](const auto& q) {
                           return fmt::format("{}_block{}{}", q.param.element.name(), q.param.block.along,
                                              q.param.is_stochastic() ? "_stochastic" : "");
                         });

TEST_P(ExactFormat, EqualsQuantizeThenMultiplyToTheBit) {
  // Products of two such elements are multiples of a common 2^e below 2^24 of it, for blocks of N(0, 1)
  // numbers: the f32 sums are exact in any order.
  const Data d;
  const Results want = composed(d, everywhere(GetParam()));
  const Computed got = computed(d, everywhere(GetParam()));
  const auto exact = [](const Product& p) { return std::vector<float>(p.values.begin(), p.values.end()); };
  EXPECT_EQ(got.y, exact(want.y));
  EXPECT_EQ(got.dx, exact(want.dx));
  EXPECT_EQ(got.dw, exact(want.dw));
}

class AnyFormat : public testing::TestWithParam<Quantizer> {};
Quantizer unbiased_fp4() {
  Quantizer q = stochastic(mxfp4);
  q.range_mult = 0.75f;
  return q;
}
Quantizer offset_int4() {
  Quantizer q = mx(int4);
  q.asymmetric = true;
  return q;
}
INSTANTIATE_TEST_SUITE_P(Formats, AnyFormat,
                         testing::Values(f32_passthrough, bf16_cast, stochastic(bf16_cast), mxfp8_e4m3,
                                         mxint8, nvfp4, stochastic(nvfp4), unbiased_fp4(), offset_int4()));

TEST_P(AnyFormat, MatchesQuantizeThenMultiply) {
  const Data d;
  const Results want = composed(d, everywhere(GetParam()));
  const Computed got = computed(d, everywhere(GetParam()));
  // K, N or M products; up to three roundings more where two tensor scales come after the GEMM.
  EXPECT_TRUE(within(got.y, want.y.values, want.y.bounds(K + 3)));
  EXPECT_TRUE(within(got.dx, want.dx.values, want.dx.bounds(N + 3)));
  EXPECT_TRUE(within(got.dw, want.dw.values, want.dw.bounds(M + 3)));
}

/// Computed equals composed.
bool agree(const Computed& got, const Results& want) {
  return within(got.y, want.y.values, want.y.bounds(K + 3)) &&
         within(got.dx, want.dx.values, want.dx.bounds(N + 3)) &&
         within(got.dw, want.dw.values, want.dw.bounds(M + 3));
}

TEST(QuantizedLinear, RoundsEachOfTheSixSlotsByItsOwnQuantizer) {
  const Data d;
  const LinearQuant q = six_quantizers();
  const Computed got = computed(d, q);
  EXPECT_TRUE(agree(got, composed(d, q)));
  for (const LinearSlot& a : linear_slots)
    for (const LinearSlot& b : linear_slots) {
      if (a.name >= b.name) continue;
      LinearQuant swapped = q;
      std::swap(swapped.*a.field, swapped.*b.field);
      EXPECT_FALSE(agree(got, composed(d, swapped))) << a.name << " and " << b.name << " are swapped unseen";
    }
}

TEST(QuantizedLinear, LeavesTheOtherFiveSlotsAloneWhenOneIsQuantized) {
  const Data d;
  for (const LinearSlot& slot : linear_slots) {
    LinearQuant q;
    q.*slot.field = mxfp4;
    EXPECT_TRUE(agree(computed(d, q), composed(d, q))) << slot.name;
    EXPECT_FALSE(agree(computed(d, q), composed(d, {}))) << slot.name;
  }
}

TEST(QuantizedLinear, DrawsAnewEachPassForXAndDyAndEachVersionForW) {
  const Data d;
  LinearQuant q;
  q.fprop_w = q.dgrad_w = stochastic(mxfp4);
  const Computed first = computed(d, q);
  PassKey next = pass;
  ++next.step;
  EXPECT_EQ(first.y, computed(d, q, next).y);
  EXPECT_EQ(first.dx, computed(d, q, next).dx);
  EXPECT_NE(first.y, computed(d, q, pass, version + 1).y);

  q = everywhere(stochastic(mxfp4));
  const Computed now = computed(d, q), again = computed(d, q), later = computed(d, q, next);
  EXPECT_EQ(now.dw, again.dw);
  EXPECT_NE(now.y, later.y);
  EXPECT_NE(now.dx, later.dx);
  EXPECT_NE(now.dw, later.dw);
}

TEST(QuantizedLinear, DrawsBelongToRowsOfTheGlobalBatch) {
  // Two halves of a batch on two devices round like the whole. 32 rows each, so that blocks do not straddle.
  const Quantizer q = stochastic(mxfp4);
  const std::vector<float> x = normals(64 * K, 1), w = normals(N * K, 2);
  const auto forward = [&](std::int64_t first, std::int64_t rows) {
    Parameter p{.name = "w", .value = upload(device(), {N, K}, w)};
    Tape tape(device(), Tape::Mode::evaluation, {.seed = 3, .step = 5, .first_row = first});
    const std::vector<float> part(x.begin() + first * K, x.begin() + (first + rows) * K);
    return download(
        device(),
        ops::linear(tape, {upload(device(), {rows, K}, part)}, p, nullptr, everywhere(q), id).value);
  };
  std::vector<float> halves = forward(0, 32);
  for (float v : forward(32, 32)) halves.push_back(v);
  EXPECT_EQ(halves, forward(0, 64));
}

LinearQuant rotated(const Quantizer& q, SignsPer signs) {
  LinearQuant quant = everywhere(q);
  quant.fprop_rotation = quant.dgrad_rotation = quant.wgrad_rotation = {16, signs};
  return quant;
}

class Signs : public testing::TestWithParam<SignsPer> {};
INSTANTIATE_TEST_SUITE_P(Per, Signs,
                         testing::Values(SignsPer::none, SignsPer::run, SignsPer::step, SignsPer::call));

TEST_P(Signs, RotateBothOperandsOfAGemmAlikeSoThatProductsStay) {
  const Data d;
  const Computed got = computed(d, rotated(f32_passthrough, GetParam()));
  const Results want = composed(d, {});
  // A rotated element has 4 levels of additions, a sign and a norm: its error is below gamma(6) times the
  // 1-norm of its chunk over sqrt(16), so gamma(6) sqrt(16) times the 2-norm over a row. Both operands, and
  // the product's own sum of at most 70 terms, against |row| |column|, which is below 2 * 70 for N(0, 1)
  // rows.
  const double bound = (2 * gamma(6) * 4 + gamma(M + 1)) * 2 * M;
  EXPECT_TRUE(within(got.y, want.y.values, std::vector(got.y.size(), bound)));
  EXPECT_TRUE(within(got.dx, want.dx.values, std::vector(got.dx.size(), bound)));
  EXPECT_TRUE(within(got.dw, want.dw.values, std::vector(got.dw.size(), bound)));
}

TEST_P(Signs, AreDrawnAgainAsOftenAsTheirNameSays) {
  const Data d;
  const LinearQuant q = rotated(mxfp4, GetParam());
  PassKey next_pass = pass;
  ++next_pass.step;
  const Computed first = computed(d, q), micro_step = computed(d, q, next_pass),
                 optimizer_step = computed(d, q, pass, version + 1);
  const bool per_step = GetParam() == SignsPer::step || GetParam() == SignsPer::call;
  EXPECT_EQ(first.y != optimizer_step.y, per_step);
  EXPECT_EQ(first.dx != optimizer_step.dx, per_step);
  // Weight copies live for an optimizer step, so only wgrad can have new signs in every micro-step.
  EXPECT_EQ(first.y, micro_step.y);
  EXPECT_EQ(first.dx, micro_step.dx);
  EXPECT_EQ(first.dw != micro_step.dw, GetParam() == SignsPer::call);
  EXPECT_EQ(first.dw != optimizer_step.dw, GetParam() == SignsPer::step);
}

TEST(QuantizedLinear, MakesWeightCopiesOncePerVersionInOnePass) {
  CountingBackend counting(device());
  const Data d;
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w)};
  const auto train = [&] {
    Tape tape(counting, Tape::Mode::training);
    const Var x = tape.input(upload(device(), {M, K}, d.x));
    tape.backward(dot(tape, ops::linear(tape, x, w, nullptr, everywhere(mxfp4), id), d.dy));
  };
  for (int micro_step = 0; micro_step < 3; ++micro_step) train();
  EXPECT_EQ(counting.of(w.value), (CountingBackend::Count{.calls = 1, .copies = 2}));
  ++w.version;
  train();
  EXPECT_EQ(counting.of(w.value), (CountingBackend::Count{.calls = 2, .copies = 4}));
  Tape evaluation(counting, Tape::Mode::evaluation);
  ops::linear(evaluation, {upload(device(), {M, K}, d.x)}, w, nullptr, everywhere(mxfp4), id);
  EXPECT_EQ(counting.of(w.value).calls, 2);
}

TEST(QuantizedLinear, AnEvaluationBetweenStepsDoesNotChangeTheNextStep) {
  const Data d;
  const LinearQuant q = everywhere(stochastic(mxfp4));
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w), .version = version};
  CountingBackend counting(device());
  Tape evaluation(counting, Tape::Mode::evaluation, {.seed = pass.seed, .step = 99});
  ops::linear(evaluation, {upload(device(), {M, K}, d.x)}, w, nullptr, q, id);
  EXPECT_EQ(counting.of(w.value), (CountingBackend::Count{.calls = 1, .copies = 1}));  // only fprop's
  Tape tape(device(), Tape::Mode::training, pass);
  const Var x = tape.input(upload(device(), {M, K}, d.x));
  tape.backward(dot(tape, ops::linear(tape, x, w, nullptr, q, id), d.dy));
  EXPECT_EQ(download(device(), tape.gradient(x)), computed(d, q).dx);
}

TEST(QuantizedLinear, MakesOneCopyWhereItServesBothAxes) {
  const Data d;
  Quantizer tile = nvfp4;
  tile.block = {16, 16};
  const auto copies = [&](const Quantizer& q) {
    CountingBackend counting(device());
    Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w)};
    Tape tape(counting, Tape::Mode::training);
    const Var x = tape.input(upload(device(), {M, K}, d.x));
    ops::linear(tape, x, w, nullptr, everywhere(q), id);
    EXPECT_EQ(counting.of(w.value), counting.of(x.value));
    return counting.of(w.value).copies;
  };
  EXPECT_EQ(copies(f32_passthrough), 0);
  EXPECT_EQ(copies(bf16_cast), 1);
  EXPECT_EQ(copies(stochastic(bf16_cast)), 1);
  EXPECT_EQ(copies(tile), 1);
  EXPECT_EQ(copies(mxfp4), 2);
}

TEST(QuantizedLinear, SavesTheRoundedCopyAndNotItsSource) {
  const Data d;
  const auto saved = [&](const Quantizer& q) {
    Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w)};
    Tape tape(device(), Tape::Mode::training);
    ops::linear(tape, {upload(device(), {M, K}, d.x)}, w, nullptr, everywhere(q), id);
    return tape.saved_bytes();
  };
  EXPECT_EQ(saved(mxfp4), 2 * M * K);
  EXPECT_EQ(saved(f32_passthrough), 4 * M * K);
}

}  // namespace
}  // namespace mxtape
