#include "tests/autograd/quantized_linear_fixture.h"
#include "tests/support/straight_through.h"

namespace mxtape {
namespace {

using namespace test;

std::vector<float> worth(const std::vector<float>& x, std::int64_t rows, std::int64_t cols, Axis axis,
                         const Quantizer& q, const DrawKey& draws) {
  std::vector<float> y(x.size());
  const float multiplier = quantize_reference(y.data(), x.data(), rows, cols, axis, q, draws);
  for (float& v : y) v *= multiplier;
  return y;
}

TEST(QuantizeOp, IsTheRoundingTimesItsMultiplierAndItsGradientTheFactor) {
  const auto x = normals(M * K, 1), dy = normals(M * K, 2);
  const DrawKey draws{pass.seed, Purpose::rounding, id, pass.step, pass.first_row * K};
  for (const char* text :
       {"mxfp4", "nvfp4 round=stochastic", "mxfp4 alpha=0.75", "int4 block=32 scale=f32", "bf16", "f32"})
    for (const Axis axis : {Axis::row, Axis::column})
      for (const SteKind kind : {SteKind::identity, SteKind::mask, SteKind::dge}) {
        const Quantizer q = parse_quantizer(text);
        Tape tape(device(), Tape::Mode::training, pass);
        const Var in = tape.input(upload(device(), {2, M / 2, K}, x));
        const Var y = ops::quantize(tape, in, q, axis, {kind}, id);
        EXPECT_EQ(download(device(), y.value), worth(x, M, K, axis, q, draws)) << text;
        tape.backward(dot(tape, y, dy));
        std::vector<float> want = dy;
        straight_through_reference(want.data(), dy.data(), x.data(), M, K, axis, q, {kind}, draws);
        EXPECT_EQ(download(device(), tape.gradient(in)), want) << text << int(kind);
      }
}

TEST(QuantizeOp, KeepsTheTypeOfBf16Activations) {
  auto x = normals(M * K, 1);
  for (float& v : x) v = to_f32(to_bf16(v));
  const Tensor narrow = device().empty({M, K}, DType::bf16);
  device().copy(narrow, upload(device(), {M, K}, x));
  Tape tape(device(), Tape::Mode::evaluation, pass);
  const Var y = ops::quantize(tape, {narrow}, nvfp4, Axis::row, {}, id);
  EXPECT_EQ(y.value.dtype(), DType::bf16);
  std::vector<float> want = worth(x, M, K, Axis::row, nvfp4, {});
  for (float& v : want) v = to_f32(to_bf16(v));
  EXPECT_EQ(download(device(), y.value), want);
}

TEST(QuantizeOp, AsTheOutputOfALinearLayerRoundsYAndLeavesTheGradientsAlone) {
  const Data d;
  LinearQuant q = everywhere(mxfp4);
  const Computed plain = computed(d, q);
  q.out = parse_quantizer("mxfp6 round=stochastic");
  const Computed got = computed(d, q);
  const DrawKey draws{pass.seed, Purpose::rounding, id + 3, pass.step, pass.first_row * N};
  EXPECT_EQ(got.y, worth(plain.y, M, N, Axis::row, q.out, draws));
  EXPECT_NE(got.y, plain.y);
  EXPECT_EQ(got.dx, plain.dx);
  EXPECT_EQ(got.dw, plain.dw);
}

TEST(ParameterQuant, ANormUsesTheRoundedGainAndItsGradientGoesToTheGain) {
  const Data d;
  const std::vector<float> gain = normals(K, 5);
  const ParameterQuant rounding{parse_quantizer("mxfp4 round=stochastic"), 300};
  const DrawKey draws{pass.seed, Purpose::rounding, 300, std::uint32_t(version), 0};
  const auto results = [&](const std::vector<float>& values, const ParameterQuant& quant, bool centred) {
    Parameter g{.name = "gain", .value = upload(device(), {K}, values), .version = version};
    Tape tape(device(), Tape::Mode::training, pass);
    const Var x = tape.input(upload(device(), {M, K}, d.x));
    const Var y = centred ? ops::layer_norm(tape, x, g, nullptr, 1e-5f, quant)
                          : ops::rms_norm(tape, x, g, 1e-5f, quant);
    const std::vector<float> value = download(device(), y.value);
    tape.backward(dot(tape, y, normals(M * K, 6)));
    return std::tuple(value, download(device(), tape.gradient(x)), download(device(), g.grad));
  };
  for (const bool centred : {false, true}) {
    const auto got = results(gain, rounding, centred);
    EXPECT_EQ(got, results(worth(gain, 1, K, Axis::row, rounding.quantizer, draws), {}, centred));
    EXPECT_NE(got, results(gain, {}, centred));
  }
}

TEST(ParameterQuant, AnEmbeddingLooksUpTheRoundedTable) {
  constexpr std::int64_t V = 9;
  const std::vector<float> table = normals(V * K, 7);
  const auto tokens = random_tokens(6, V, 3);
  const auto looked_up = [&](const std::vector<float>& values, const ParameterQuant& quant) {
    Parameter t{.name = "table", .value = upload(device(), {V, K}, values)};
    Tape tape(device(), Tape::Mode::training, pass);
    const Var y = ops::embedding(tape, upload(device(), {2, 3}, tokens), t, nullptr, DType::f32, quant);
    const std::vector<float> value = download(device(), y.value);
    tape.backward(dot(tape, y, normals(6 * K, 6)));
    return std::pair(value, download(device(), t.grad));
  };
  const auto got = looked_up(table, {nvfp4, 5});
  EXPECT_EQ(got, looked_up(worth(table, V, K, Axis::row, nvfp4, {}), {}));
  EXPECT_NE(got.first, looked_up(table, {}).first);
}

}  // namespace
}  // namespace mxtape
