#include "autograd/tape.h"

#include "autograd/ops.h"
#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/probe.h"

namespace mxtape {
namespace {

using namespace test;

std::vector<float> times(float factor, std::vector<float> x) {
  for (float& v : x) v *= factor;
  return x;
}

TEST(Tape, AddsTheContributionsOfADiamond) {
  const std::vector<float> dy = normals(6, 1);
  Tape tape(device(), Tape::Mode::training);
  const Var p = tape.input(upload(device(), {2, 3}, normals(6, 2))),
            q = tape.input(upload(device(), {2, 3}, normals(6, 3)));
  // In p + q + p one dy reaches q and p alike: adding p's second share in place would change q's.
  tape.backward(dot(tape, ops::add(tape, ops::add(tape, p, q), p), dy));
  EXPECT_EQ(download(device(), tape.gradient(p)), times(2, dy));
  EXPECT_EQ(download(device(), tape.gradient(q)), dy);
}

TEST(Tape, CountsBothUsesInXPlusX) {
  const std::vector<float> dy = normals(6, 1);
  Tape tape(device(), Tape::Mode::training);
  const Var x = tape.input(upload(device(), {2, 3}, normals(6, 2)));
  const Var twice = ops::add(tape, x, x);
  tape.backward(dot(tape, ops::add(tape, twice, twice), dy));
  EXPECT_EQ(download(device(), tape.gradient(x)), times(4, dy));
}

TEST(Tape, LeavesDyAloneWhenAnOpRunsInPlaceOnASharedOne) {
  // gelu's backward writes into dy if it may; here the other side of the sum still needs it.
  const std::vector<float> dy = normals(6, 1);
  Tape tape(device(), Tape::Mode::training);
  const Var p = tape.input(upload(device(), {2, 3}, normals(6, 2))),
            q = tape.input(upload(device(), {2, 3}, normals(6, 3)));
  tape.backward(dot(tape, ops::add(tape, p, ops::gelu(tape, q, Gelu::erf)), dy));
  EXPECT_EQ(download(device(), tape.gradient(p)), dy);
}

TEST(Tape, AddsBothUsesOfATiedWeight) {
  constexpr std::int64_t V = 5, C = 4, rows = 6;
  const std::vector<float> table = normals(V * C, 1), dy = normals(rows * V, 2);
  const Tensor tokens = upload(device(), {1, rows}, random_tokens(rows, V, 3));
  const auto gradients = [&](bool tied) {
    Parameter embedding{.name = "embedding", .value = upload(device(), {V, C}, table)};
    Parameter head{.name = "head", .value = upload(device(), {V, C}, table)};
    Tape tape(device(), Tape::Mode::training);
    const Var x = ops::embedding(tape, tokens, embedding, nullptr);
    tape.backward(dot(tape, ops::linear(tape, x, tied ? embedding : head, nullptr, {}, 0), dy));
    return std::pair(download(device(), embedding.grad),
                     tied ? std::vector<float>{} : download(device(), head.grad));
  };
  const auto [together, none] = gradients(true);
  const auto [embedding, head] = gradients(false);
  for (std::size_t i = 0; i < together.size(); ++i) {
    const double want = double(embedding[i]) + head[i];
    // The embedding's rows are added to the head's sum one by one: `rows` roundings of a partial sum.
    EXPECT_NEAR(together[i], want, gamma(2 * rows) * rows * (std::abs(embedding[i]) + std::abs(head[i]) + 1));
    EXPECT_NE(embedding[i] != 0 && head[i] != 0, together[i] == embedding[i] || together[i] == head[i]);
  }
}

TEST(Tape, SumsABroadcastBiasOverRows) {
  const std::vector<float> dy = normals(7 * 3, 1);
  Parameter w{.name = "w", .value = upload(device(), {3, 2}, normals(6, 2))};
  Parameter b{.name = "b", .value = upload(device(), {3}, normals(3, 3))};
  Tape tape(device(), Tape::Mode::training);
  tape.backward(dot(tape, ops::linear(tape, {upload(device(), {7, 2}, normals(14, 4))}, w, &b, {}, 0), dy));
  std::vector<double> want(3), bound(3);
  for (std::size_t i = 0; i < dy.size(); ++i)
    want[i % 3] += dy[i], bound[i % 3] += gamma(7) * std::abs(dy[i]);
  EXPECT_TRUE(within(download(device(), b.grad), want, bound));
}

TEST(Tape, SkipsWhatTheLossDoesNotUse) {
  Parameter used{.name = "used", .value = upload(device(), {3, 2}, normals(6, 2))};
  Parameter unused{.name = "unused", .value = upload(device(), {3, 2}, normals(6, 3))};
  Tape tape(device(), Tape::Mode::training);
  const Var x{upload(device(), {4, 2}, normals(8, 4))};
  const Var y = ops::linear(tape, x, used, nullptr, {}, 0);
  const Var idle = ops::linear(tape, x, unused, nullptr, {}, 4);
  tape.backward(dot(tape, y, normals(12, 1)));
  EXPECT_TRUE(used.has_grad);
  EXPECT_FALSE(unused.has_grad);
}

TEST(Tape, WhatNobodyElseHoldsBecomesTheResult) {
  Tape tape(device(), Tape::Mode::training);
  const Tensor a = upload(device(), {2, 2}, normals(4, 1));
  const auto fresh = [] { return Var{upload(device(), {2, 2}, normals(4, 2))}; };
  Var free = fresh();
  const Var held = fresh();
  const void *const of_free = free.value.raw(), *const of_held = held.value.raw();
  const Var sum = ops::add(tape, {a}, std::move(free));
  EXPECT_EQ(sum.value.raw(), of_free);
  EXPECT_NE(ops::add(tape, {a}, held).value.raw(), of_held);
  EXPECT_EQ(download(device(), sum.value), download(device(), ops::add(tape, {a}, held).value));
  EXPECT_EQ(download(device(), held.value), normals(4, 2));
  Var dropped = fresh();
  const Tensor also = dropped.value;
  EXPECT_NE(ops::dropout(tape, std::move(dropped), 0.5f, 7).value.raw(), also.raw());
  EXPECT_EQ(download(device(), also), normals(4, 2));
}

TEST(Tape, RecordsAndSavesNothingInEvaluation) {
  Parameter w{.name = "w", .value = upload(device(), {3, 3}, normals(9, 2))};
  Tape tape(device(), Tape::Mode::evaluation);
  const std::int64_t before = device().used_bytes();
  {
    const Var x{upload(device(), {4, 3}, normals(12, 4))};
    Var y = ops::gelu(tape, ops::linear(tape, x, w, nullptr, {}, 0), Gelu::tanh);
    EXPECT_EQ(y.grad, no_grad);
    EXPECT_THROW(tape.backward({upload<float>(device(), {1}, {0})}), Error);
  }
  EXPECT_EQ(device().used_bytes(), before);
}

TEST(Tape, FreesWhatItSavedDuringBackward) {
  Parameter w{.name = "w", .value = upload(device(), {3, 3}, normals(9, 2))};
  Tape tape(device(), Tape::Mode::training);
  const std::int64_t before = device().used_bytes();
  {
    const Var x{upload(device(), {4, 3}, normals(12, 4))};
    const Var loss =
        dot(tape, ops::gelu(tape, ops::linear(tape, x, w, nullptr, {}, 0), Gelu::tanh), normals(12, 1));
    tape.backward(loss);
  }
  const std::int64_t after = device().used_bytes();
  const Tensor seed = device().empty({1}), gradient = device().empty({3, 3});
  EXPECT_EQ(after - before, device().used_bytes() - after) << "more than the gradients is left";
}

// The head is tied to the table, so the table is complete with the embedding alone; the norm's gain is used
// twice in a row.
TEST(Tape, SaysOfEachParameterOnceThatItsGradientIsCompleteAndThenNothingChangesIt) {
  constexpr std::int64_t V = 5, C = 4, rows = 6;
  Parameter table{.name = "table", .value = upload(device(), {V, C}, normals(V * C, 1))};
  Parameter w{.name = "w", .value = upload(device(), {C, C}, normals(C * C, 2))};
  Parameter bias{.name = "bias", .value = upload(device(), {C}, normals(C, 3))};
  Parameter gain{.name = "gain", .value = upload(device(), {C}, normals(C, 4))};
  Tape tape(device(), Tape::Mode::training);
  const Tensor tokens = upload(device(), {1, rows}, random_tokens(rows, V, 5));
  Var x = ops::embedding(tape, tokens, table, nullptr);
  x = ops::rms_norm(tape, x, gain, 1e-5f);
  x = ops::rms_norm(tape, ops::linear(tape, x, w, &bias, {}, 0), gain, 1e-5f);
  const Var loss = dot(tape, ops::linear(tape, x, table, nullptr, {}, 3), normals(rows * V, 6));
  std::vector<std::vector<std::string>> heard;
  std::vector<std::pair<Parameter*, std::vector<float>>> seen;
  tape.after_node = [&](std::span<Parameter* const> complete) {
    auto& names = heard.emplace_back();
    for (Parameter* const p : complete) {
      names.push_back(p->name);
      seen.emplace_back(p, download(device(), p->grad));
    }
  };
  tape.backward(loss);
  using Names = std::vector<std::string>;
  // dot, head, norm, linear, norm, embedding
  EXPECT_EQ(heard, (std::vector<Names>{{}, {}, {}, {"bias", "w"}, {"gain"}, {"table"}}));
  for (const auto& [parameter, gradient] : seen)
    EXPECT_EQ(download(device(), parameter->grad), gradient) << parameter->name;
}

// A node that fails, in either pass.
struct Failing final : Node {
  const char* name() const override { return "failing"; }
  void backward(Tape&, Tensor) override { fail(ExitCode::diverged, "no number"); }
};

TEST(Tape, AnErrorLeavesThePlaceWhereItHappened) {
  const std::string name = "mlp.up";
  Tape tape(device(), Tape::Mode::training);
  const Var loss = [&] {
    const Tape::Layer layer(tape, name);
    const Var x = tape.input(device().empty({1}));
    return tape.record(device().empty({1}), {x.grad}, std::make_unique<Failing>());
  }();
  EXPECT_EQ(tape.place(), "");
  EXPECT_THROW(tape.backward(loss), Error);
  EXPECT_EQ(tape.place(), "mlp.up, backward");
  Tape other(device(), Tape::Mode::training);
  EXPECT_THROW(
      {
        const Tape::Layer layer(other, name);
        fail(ExitCode::diverged, "no number");
      },
      Error);
  EXPECT_EQ(other.place(), "mlp.up");
}

TEST(Tape, RefusesALossThatIsNotOneNumber) {
  Tape tape(device(), Tape::Mode::training);
  EXPECT_THROW(tape.backward(tape.input(device().empty({2}))), Error);
}

}  // namespace
}  // namespace mxtape
