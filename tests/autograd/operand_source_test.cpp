// Backward's operands made from the forward's, and gradients that go back through the forward's rounding:
// held against the composition written out from docs/numerics.md.
#include "formats/rotation.h"
#include "tests/autograd/quantized_linear_fixture.h"
#include "tests/support/counting_backend.h"
#include "tests/support/straight_through.h"

namespace mxtape {
namespace {

using namespace test;

using Matrix = std::vector<float>;

constexpr DrawKey x_draws{pass.seed, Purpose::rounding, id, pass.step, pass.first_row* K};
constexpr DrawKey w_draws{pass.seed, Purpose::rounding, id + 1, std::uint32_t(version), 0};
constexpr DrawKey dy_draws{pass.seed, Purpose::rounding, id + 2, pass.step, pass.first_row* N};
DrawKey again(DrawKey draws) {
  draws.tensor_id += 1u << 31;
  return draws;
}
DrawKey signs_of(const Rotation&) { return {pass.seed, Purpose::hadamard_signs, 0, 0, 0}; }  // signs=run

Matrix turned(Matrix x, std::int64_t rows, std::int64_t cols, Axis axis, const Rotation& r,
              RotationWay turn = RotationWay::forth) {
  if (r.size) rotate_reference(x.data(), x.data(), rows, cols, axis, r, signs_of(r), turn);
  return x;
}
/// What a copy of x is worth.
Matrix copy_of(const Matrix& x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
               const Rotation& r, const DrawKey& draws) {
  Matrix y = turned(x, rows, cols, axis, r);
  const float multiplier = quantize_reference(y.data(), y.data(), rows, cols, axis, q, draws);
  for (float& v : y) v *= multiplier;
  return y;
}

struct Expected {
  std::vector<double> values, bounds;
};

/// `p` [rows, cols], sums of `terms` products, through the rounding of x [rows, cols]. `rotated`: of R x.
Expected back(const Product& p, std::int64_t rows, std::int64_t cols, std::int64_t terms, const Matrix& x,
              const LinearQuant& quant, const Quantizer& q, const StraightThrough& ste, bool rotated,
              const DrawKey& draws) {
  const Rotation& r = quant.fprop_rotation;
  Matrix g(p.values.begin(), p.values.end());
  if (!rotated) g = turned(g, rows, cols, Axis::row, r);
  const Matrix source = turned(x, rows, cols, Axis::row, r);
  straight_through_reference(g.data(), g.data(), source.data(), rows, cols, Axis::row, q, ste, draws);
  g = turned(g, rows, cols, Axis::row, r, RotationWay::back);
  Expected e{std::vector<double>(g.begin(), g.end()), p.bounds(terms + 3)};
  const double steepest = ste.kind == SteKind::dge ? ste.most : 1;
  for (std::int64_t i = 0; i < rows; ++i) {
    double row = 0;
    for (std::int64_t j = 0; j < cols; ++j)
      row +=
          e.bounds[std::size_t(i * cols + j)] + 32 * 0x1p-24 * std::abs(p.values[std::size_t(i * cols + j)]);
    for (std::int64_t j = 0; j < cols; ++j) {
      double& bound = e.bounds[std::size_t(i * cols + j)];
      // A rotation spreads what a row is off by, and rounds some ten times itself, there and back.
      bound = steepest * (r.size ? row : bound + 4 * 0x1p-24 * std::abs(p.values[std::size_t(i * cols + j)]));
    }
  }
  return e;
}

struct Composed {
  Expected dx, dw;
};

Composed composition(const Data& d, const LinearQuant& q) {
  const auto at = [](const Matrix& m, std::int64_t cols) {
    return [&m, cols](std::int64_t i, std::int64_t j) { return double(m[std::size_t(i * cols + j)]); };
  };
  const auto flipped = [](auto m) { return [m](std::int64_t i, std::int64_t j) { return m(j, i); }; };
  const Matrix fprop_x = copy_of(d.x, M, K, Axis::row, q.fprop_x, q.fprop_rotation, x_draws);
  const Matrix fprop_w = copy_of(d.w, N, K, Axis::row, q.fprop_w, q.fprop_rotation, w_draws);
  const auto backward = [](OperandSource source, const Matrix& master, const Matrix& forward,
                           std::int64_t rows, const Quantizer& quantizer, const Rotation& r,
                           const DrawKey& draws) {
    if (source == OperandSource::shared) return forward;
    const bool once = source == OperandSource::master;
    return copy_of(once ? master : forward, rows, K, Axis::column, quantizer, r, once ? draws : again(draws));
  };
  const Matrix dgrad_w = backward(q.dgrad_source, d.w, fprop_w, N, q.dgrad_w, q.dgrad_rotation, w_draws);
  const Matrix wgrad_x = backward(q.wgrad_source, d.x, fprop_x, M, q.wgrad_x, q.wgrad_rotation, x_draws);
  const Matrix dgrad_dy = copy_of(d.dy, M, N, Axis::row, q.dgrad_dy, q.dgrad_rotation, dy_draws);
  const Matrix wgrad_dy = copy_of(d.dy, M, N, Axis::column, q.wgrad_dy, q.wgrad_rotation, dy_draws);
  const Product dx = multiply(M, K, N, at(dgrad_dy, N), at(dgrad_w, K)),
                dw = multiply(N, K, M, flipped(at(wgrad_dy, N)), at(wgrad_x, K));
  const auto is_rotated = [](OperandSource source) { return source != OperandSource::master; };
  return {back(dx, M, K, N, d.x, q, q.fprop_x, q.x_ste, is_rotated(q.dgrad_source), x_draws),
          back(dw, N, K, M, d.w, q, q.fprop_w, q.w_ste, is_rotated(q.wgrad_source), w_draws)};
}

bool is(const Computed& got, const Composed& want) {
  return within(got.dx, want.dx.values, want.dx.bounds) && within(got.dw, want.dw.values, want.dw.bounds);
}

LinearQuant with_sources(const char* forward, const char* backward, OperandSource source) {
  LinearQuant q = everywhere(parse_quantizer(forward));
  q.dgrad_dy = q.dgrad_w = q.wgrad_dy = q.wgrad_x = parse_quantizer(backward);
  q.dgrad_source = q.wgrad_source = source;
  return q;
}

TEST(OperandSource, ForwardRoundsTheForwardsValuesAgain) {
  const Data d;
  for (const auto& [forward, backward] :
       {std::pair{"mxfp4 rule=rceil", "mxfp4 rule=rceil round=stochastic"}, std::pair{"nvfp4", "nvfp4"},
        std::pair{"mxfp4 round=stochastic", "mxfp4 round=stochastic"}, std::pair{"mxfp4 alpha=0.75", "mxfp6"},
        std::pair{"mxfp4", "f32"}}) {
    LinearQuant q = with_sources(forward, backward, OperandSource::forward);
    const Computed got = computed(d, q);
    EXPECT_TRUE(is(got, composition(d, q))) << forward << ", " << backward;
    q.dgrad_source = OperandSource::master;
    EXPECT_FALSE(is(got, composition(d, q))) << forward << ", " << backward;
    EXPECT_EQ(got.y, computed(d, q).y);
  }
}

TEST(OperandSource, SharedIsTheForwardsValuesThemselves) {
  const Data d;
  for (const char* format : {"mxfp4", "nvfp4 block=16x16", "mxfp4 alpha=0.75"}) {
    LinearQuant q = with_sources(format, "mxfp8", OperandSource::shared);
    const Computed got = computed(d, q);
    EXPECT_TRUE(is(got, composition(d, q))) << format;
    q.dgrad_source = q.wgrad_source = OperandSource::master;
    EXPECT_FALSE(is(got, composition(d, q))) << format;
  }
  // Square tiles are the same from the master.
  LinearQuant tiles = everywhere(parse_quantizer("nvfp4 block=16x16"));
  const Computed apart = computed(d, tiles);
  tiles.dgrad_source = tiles.wgrad_source = OperandSource::shared;
  const Computed shared = computed(d, tiles);
  EXPECT_EQ(apart.dx, shared.dx);
  EXPECT_EQ(apart.dw, shared.dw);
}

/// Quartet: rotated rms-scaled operands and masks in the forward, which backward rotates and rounds again.
LinearQuant quartet() {
  LinearQuant q =
      with_sources("mxfp4 statistic=rms rule=rnearest", "mxfp4 alpha=0.75", OperandSource::forward);
  q.fprop_rotation = q.dgrad_rotation = q.wgrad_rotation = {32, SignsPer::run};
  q.x_ste = q.w_ste = {SteKind::mask};
  return q;
}

TEST(OperandSource, ValuesOfARotatedForwardAreRotatedBackAfterTheGemm) {
  const Data d;
  LinearQuant q = with_sources("mxfp4", "mxfp4", OperandSource::forward);
  q.fprop_rotation = {32, SignsPer::run};
  EXPECT_TRUE(is(computed(d, q), composition(d, q)));
  EXPECT_TRUE(is(computed(d, quartet()), composition(d, quartet())));
  q = quartet();
  q.x_ste = {};
  EXPECT_FALSE(is(computed(d, quartet()), composition(d, q))) << "a mask has been lost";
}

TEST(OperandSource, WithoutRoundingARotatedForwardGivesTheGradient) {
  const Data d;
  LinearQuant q;
  q.fprop_rotation = {16, SignsPer::run};
  q.dgrad_source = q.wgrad_source = OperandSource::shared;
  const Computed got = computed(d, q);
  const Results want = composed(d, {});
  // The bound of rotated_linear_test.cpp, with the rotation back.
  const double bound = (3 * gamma(6) * 4 + gamma(M + 1)) * 2 * M;
  EXPECT_TRUE(within(got.dx, want.dx.values, std::vector(got.dx.size(), bound)));
  EXPECT_TRUE(within(got.dw, want.dw.values, std::vector(got.dw.size(), bound)));
}

TEST(StraightThroughLinear, MultipliesTheGradientsOfXAndWByTheirOwnFactors) {
  const Data d;
  for (const SteKind of_x : {SteKind::identity, SteKind::mask, SteKind::dge})
    for (const SteKind of_w : {SteKind::identity, SteKind::mask, SteKind::dge})
      for (const std::int32_t rotation : {0, 16}) {
        LinearQuant q = everywhere(mxfp4);
        q.fprop_rotation = {rotation, SignsPer::run};
        const LinearQuant plain = q;
        q.x_ste.kind = of_x, q.w_ste.kind = of_w;
        const Computed got = computed(d, q);
        EXPECT_TRUE(is(got, composition(d, q))) << int(of_x) << int(of_w) << rotation;
        EXPECT_EQ(is(got, composition(d, plain)), q == plain) << int(of_x) << int(of_w) << rotation;
      }
}

TEST(StraightThroughLinear, MicroBatchesAddUpWhatEachGives) {
  const Data d;
  const LinearQuant q = quartet();
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w), .version = version};
  std::vector<float> sum;
  for (std::uint32_t micro_step = 0; micro_step < 2; ++micro_step) {
    PassKey key = pass;
    key.step += micro_step;
    Tape tape(device(), Tape::Mode::training, key);
    const Var x = tape.input(upload(device(), {M, K}, d.x));
    tape.backward(dot(tape, ops::linear(tape, x, w, nullptr, q, id), d.dy));
    const std::vector<float> alone = computed(d, q, key).dw;
    if (sum.empty()) sum.resize(alone.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += alone[i];
  }
  EXPECT_EQ(download(device(), w.grad), sum);
}

TEST(StraightThroughLinear, AnOperandThatIsMadeAgainInBackwardHasTheSameBits) {
  const Data d;
  for (const LinearQuant& q : {quartet(), with_sources("nvfp4", "nvfp4", OperandSource::shared)}) {
    const auto gradients = [&](Recompute recompute) {
      device().trim();
      Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w), .version = version};
      Parameter gain{.name = "gain", .value = upload(device(), {K}, normals(K, 8))};
      Tape tape(device(), Tape::Mode::training, pass, {.recompute = recompute});
      const Var x = tape.input(upload(device(), {M, K}, d.x));
      const Var y = ops::linear(tape, ops::rms_norm(tape, x, gain), w, nullptr, q, id);
      const std::int64_t saved = device().used_bytes();
      tape.backward(dot(tape, y, d.dy));
      return std::tuple(download(device(), tape.gradient(x)), download(device(), w.grad), saved);
    };
    const auto [dx, dw, saved] = gradients(Recompute::none);
    const auto [dx_again, dw_again, saved_again] = gradients(Recompute::norm);
    EXPECT_EQ(dx, dx_again);
    EXPECT_EQ(dw, dw_again);
    EXPECT_LT(saved_again, saved);
  }
}

TEST(WeightCopies, FromTheForwardAreMadeOncePerVersionAndNotFromTheWeight) {
  CountingBackend counting(device());
  const Data d;
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w)};
  const auto train = [&](OperandSource source) {
    Tape tape(counting, Tape::Mode::training);
    const Var x = tape.input(upload(device(), {M, K}, d.x));
    const LinearQuant q = with_sources("mxfp4", "mxfp6", source);
    tape.backward(dot(tape, ops::linear(tape, x, w, nullptr, q, id), d.dy));
  };
  for (int micro_step = 0; micro_step < 3; ++micro_step) train(OperandSource::forward);
  EXPECT_EQ(counting.of(w.value), (CountingBackend::Count{.calls = 1, .copies = 1}));
  EXPECT_EQ(counting.of(w.copies.fprop.elements), (CountingBackend::Count{.calls = 1, .copies = 1}));
  train(OperandSource::master);
  EXPECT_EQ(counting.of(w.value).copies, 2) << "another source is another copy";
  train(OperandSource::shared);
  EXPECT_EQ(counting.of(w.value).copies, 2);
  EXPECT_EQ(w.copies.dgrad.elements.raw(), w.copies.fprop.elements.raw());
}

}  // namespace
}  // namespace mxtape
