#include "autograd/linear_operands.h"
#include "tests/autograd/quantized_linear_fixture.h"
#include "tests/support/counting_backend.h"

namespace mxtape {
namespace {

using namespace test;

TEST(WeightCopies, AreMadeOncePerVersionInOnePass) {
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

TEST(WeightCopies, AnEvaluationBetweenStepsDoesNotChangeTheNextStep) {
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

// What an evaluation with other keys left is kept where nothing is drawn; the update asks both copies for one
// key.
TEST(WeightCopies, KeptFromAnEvaluationCountOnFromTheTrainingsKeys) {
  const Data d;
  const LinearQuant q = everywhere(mxfp4);
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w), .version = version};
  Tape evaluation(device(), Tape::Mode::evaluation);
  ops::linear(evaluation, {upload(device(), {M, K}, d.x)}, w, nullptr, q, id);
  Tape tape(device(), Tape::Mode::training, pass);
  ops::linear(tape, tape.input(upload(device(), {M, K}, d.x)), w, nullptr, q, id);
  const std::vector<Rounded> next = next_copies(w);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0].by.draws, next[1].by.draws);
  EXPECT_EQ(next[0].by.draws.seed, pass.seed);
}

TEST(WeightCopies, LiveNoLongerThanTheirPassesNeedThemIfTheTapeDoesNotKeepThem) {
  const Data d;
  const LinearQuant q = everywhere(stochastic(mxfp4));
  Parameter w{.name = "w", .value = upload(device(), {N, K}, d.w), .version = version};
  Tape tape(device(), Tape::Mode::training, pass, {.weights = false});
  const Var x = tape.input(upload(device(), {M, K}, d.x));
  const Var loss = dot(tape, ops::linear(tape, x, w, nullptr, q, id), d.dy);
  EXPECT_FALSE(w.copies.fprop || w.copies.dgrad);
  EXPECT_TRUE(next_copies(w).empty());
  tape.backward(loss);
  const Computed want = computed(d, q);
  EXPECT_EQ(download(device(), tape.gradient(x)), want.dx);
  EXPECT_EQ(download(device(), w.grad), want.dw);
}

TEST(WeightCopies, AreOneWhereItServesBothAxes) {
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

}  // namespace
}  // namespace mxtape
