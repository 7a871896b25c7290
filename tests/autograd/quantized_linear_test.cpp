#include "tests/autograd/quantized_linear_fixture.h"

namespace mxtape {
namespace {

using namespace test;

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

class NineFormats : public testing::TestWithParam<Quantizer> {};
Quantizer unbiased_fp4() {
  Quantizer q = stochastic(mxfp4);
  q.alpha = 0.75f;
  return q;
}
Quantizer offset_int4() {
  Quantizer q = mx(int4);
  q.offset = Offset::midpoint;
  return q;
}
INSTANTIATE_TEST_SUITE_P(Formats, NineFormats,
                         testing::Values(f32_passthrough, bf16_cast, stochastic(bf16_cast), mxfp8_e4m3,
                                         mxint8, nvfp4, stochastic(nvfp4), unbiased_fp4(), offset_int4()));

TEST_P(NineFormats, MatchesQuantizeThenMultiply) {
  const Data d;
  const Results want = composed(d, everywhere(GetParam()));
  const Computed got = computed(d, everywhere(GetParam()));
  // K, N or M products; up to three roundings more where two tensor scales come after the GEMM.
  EXPECT_TRUE(within(got.y, want.y.values, want.y.bounds(K + 3)));
  EXPECT_TRUE(within(got.dx, want.dx.values, want.dx.bounds(N + 3)));
  EXPECT_TRUE(within(got.dw, want.dw.values, want.dw.bounds(M + 3)));
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

TEST(QuantizedLinear, SavesNoSourceOfARoundedCopy) {
  const Data d;
  const auto saves_x = [&](const Quantizer& q) {
    Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w)};
    Tape tape(device(), Tape::Mode::training);
    const Var x{upload(device(), {M, K}, d.x)};
    ops::linear(tape, x, w, nullptr, everywhere(q), id);
    return !x.value.unique();
  };
  EXPECT_FALSE(saves_x(mxfp4));
  EXPECT_TRUE(saves_x(f32_passthrough));
}

}  // namespace
}  // namespace mxtape
