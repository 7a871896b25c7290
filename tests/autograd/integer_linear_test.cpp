// Linear layers whose GEMMs multiply integer codes, against the composition of quantized_linear_fixture.h.
#include "autograd/round.h"
#include "tests/autograd/quantized_linear_fixture.h"
#include "tests/support/rounded.h"

namespace mxtape {
namespace {

using namespace test;

Backend& integers() {
  static const auto backend = make_backend("cpu", {.gemm = GemmKernels::integer});
  return *backend;
}

Computed computed_in_integers(const Data& d, const LinearQuant& q) {
  return computed(d, q, pass, version, integers());
}

TEST(IntegerLinear, EqualsQuantizeThenMultiplyToTheBitWhereSumsAreExact) {
  const Data d;
  for (const Quantizer& q : {mxfp4, mxfp6_e2m3, mx(e2m1, 16), stochastic(mxfp4), stochastic(mxfp6_e2m3)}) {
    const Results want = composed(d, everywhere(q));
    const Computed got = computed_in_integers(d, everywhere(q));
    EXPECT_EQ(integers().last_gemm(), GemmPath::integer);
    const auto exact = [](const Product& p) { return std::vector<float>(p.values.begin(), p.values.end()); };
    EXPECT_EQ(got.y, exact(want.y)) << to_text(q);
    EXPECT_EQ(got.dx, exact(want.dx)) << to_text(q);
    EXPECT_EQ(got.dw, exact(want.dw)) << to_text(q);
  }
}

TEST(IntegerLinear, MatchesQuantizeThenMultiplyWithTensorScalesTilesAndOtherElements) {
  const Data d;
  Quantizer tile = nvfp4, unbiased = stochastic(mxfp4);
  tile.block = {16, 16};
  unbiased.alpha = 0.75f;
  for (const Quantizer& q : {nvfp4, stochastic(nvfp4), tile, unbiased, mxint8, mx(e3m0), mx(int4, 48)})
    EXPECT_TRUE(agree(computed_in_integers(d, everywhere(q)), composed(d, everywhere(q)))) << to_text(q);
}

TEST(IntegerLinear, GivesTheLibrarysBitsBehindRotationsWhereSumsAreExact) {
  const Data d;
  const auto values = make_backend("cpu", {.gemm = GemmKernels::library});
  for (const SignsPer signs : {SignsPer::none, SignsPer::run, SignsPer::step, SignsPer::call}) {
    LinearQuant q = everywhere(stochastic(mxfp4));
    q.fprop_rotation = q.dgrad_rotation = q.wgrad_rotation = {16, signs};
    const Computed want = computed(d, q, pass, version, *values), got = computed_in_integers(d, q);
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.dx, want.dx);
    EXPECT_EQ(got.dw, want.dw);
  }
}

TEST(IntegerLinear, GivesTheLibrarysBitsWhereBackwardIsMadeFromTheForward) {
  const Data d;
  const auto values = make_backend("cpu", {.gemm = GemmKernels::library});
  for (const auto& [forward, backward] :
       {std::pair{mxfp4, mxfp4}, std::pair{mxfp4, mxfp6_e2m3}, std::pair{mxfp6_e3m2, mxfp4}}) {
    LinearQuant q = everywhere(stochastic(backward));
    q.fprop_x = q.fprop_w = forward;
    q.dgrad_source = q.wgrad_source = OperandSource::forward;
    for (const std::int32_t rotation : {0, 16}) {
      q.fprop_rotation = {rotation, SignsPer::run};
      const Computed want = computed(d, q, pass, version, *values), got = computed_in_integers(d, q);
      EXPECT_EQ(got.y, want.y);
      EXPECT_EQ(got.dx, want.dx);
      EXPECT_EQ(got.dw, want.dw);
    }
  }
}

TEST(IntegerLinear, ACopyInCodesIsWorthWhatItIsInValues) {
  const std::int64_t rows = 37, cols = 45;
  const auto x = normals(rows * cols, 3);
  Quantizer int4_e4m3 = nvfp4;
  int4_e4m3.element = int4;
  for (const Quantizer& q : {mxfp4, mxint8, mx(e2m1, 16), nvfp4, int4_e4m3})
    for (const Axis axis : {Axis::row, Axis::column}) {
      const auto worth_as = [&](Layout layout) {
        const Tensor source = upload(integers(), {rows, cols}, x);
        return download(integers(), value_of(integers(), quantized(integers(), q, axis, source, {}, layout)));
      };
      EXPECT_EQ(worth_as(Layout::codes), worth_as(Layout::values)) << to_text(q);
    }
}

TEST(IntegerLinear, AGemmWithAnOperandThatHasNoCodesIsTheLibrarys) {
  const Data d;
  // fprop: both have codes, of other formats and blocks; dgrad: dy is E3M2; wgrad: x is not rounded.
  const LinearQuant q{mxfp4, nvfp4, mxfp6_e3m2, mxint8, mxfp4, f32_passthrough, {}, {}, {}};
  EXPECT_TRUE(agree(computed_in_integers(d, q), composed(d, q)));
  Parameter w{.name = "w", .value = upload(integers(), {N, K}, d.w), .version = version};
  Tape tape(integers(), Tape::Mode::training, pass);
  const Var x = tape.input(upload(integers(), {M, K}, d.x));
  ops::linear(tape, x, w, nullptr, q, id);
  EXPECT_EQ(integers().last_gemm(), GemmPath::integer);
  EXPECT_EQ(w.copies.fprop.layout, Layout::codes);
  EXPECT_EQ(w.copies.dgrad.layout, Layout::values);
}

TEST(IntegerLinear, KeepsCodesForBackwardAndOfWeights) {
  const Data d;
  Parameter w{.name = "w", .value = upload(integers(), {N, K}, d.w), .version = version};
  Tape tape(integers(), Tape::Mode::training, pass);
  const Var x = tape.input(upload(integers(), {M, K}, d.x));
  integers().trim();
  const std::int64_t before = integers().used_bytes();
  ops::linear(tape, x, w, nullptr, everywhere(mxfp4), id);
  EXPECT_TRUE(x.value.unique()) << "x itself is kept";
  // M = 70 rounds up to 80 codes and 3 scales for each of 48 lines. The pool hands out 256 bytes at a time.
  std::int64_t kept = 0;
  for (const std::int64_t bytes :
       {std::int64_t{48 * 80}, std::int64_t{48 * 3 * 4}, w.copies.fprop.elements.bytes(),
        w.copies.fprop.scales.bytes(), w.copies.dgrad.elements.bytes(), w.copies.dgrad.scales.bytes()})
    kept += (bytes + 255) / 256 * 256;
  EXPECT_EQ(integers().used_bytes() - before, kept);
  EXPECT_EQ(w.copies.fprop.elements.bytes(), 48 * 48);
  EXPECT_EQ(w.copies.dgrad.elements.bytes(), 48 * 48);
}

}  // namespace
}  // namespace mxtape
