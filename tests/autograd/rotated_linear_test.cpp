#include "tests/autograd/quantized_linear_fixture.h"

namespace mxtape {
namespace {

using namespace test;

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

}  // namespace
}  // namespace mxtape
