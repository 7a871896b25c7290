#include "optim/adamw.h"

#include "autograd/linear_operands.h"
#include "core/error.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

/// Algorithm 2 of Loshchilov & Hutter 2019 for one number, in double, with a bound on what f32 may add.
struct Reference {
  double value, m = 0, v = 0;
  double m_size = 0;  // m with |gradient|
  double error = 0;   // bound on |f32 value - value|

  void step(double gradient, const AdamWConfig& c, double decay, int t) {
    const double b1 = c.beta1, b2 = c.beta2, rate = c.learning_rate;
    m = b1 * m + (1 - b1) * gradient;
    m_size = b1 * m_size + (1 - b1) * std::abs(gradient);
    v = b2 * v + (1 - b2) * gradient * gradient;
    const double deviation = std::sqrt(v / (1 - std::pow(b2, t))) + c.eps;
    const double update = m / (1 - std::pow(b1, t)) / deviation + decay * value;
    // m: 3 roundings a step; v: 4 a step, halved by the root; corrections, quotients, sum and rate: 10 more.
    // The clip factor brings one to each gradient, counted in the 3 and 4.
    const double relative = gamma(3 * t + 2 * t + 10);
    const double size = m_size / (1 - std::pow(b1, t)) / deviation + decay * std::abs(value);
    error = error * (1 + rate * decay) + rate * relative * size + gamma(1) * std::abs(value);
    value -= rate * update;
  }
};

struct Pair {
  std::vector<float> start, gradient;
  Parameter matrix{.name = "matrix"}, gain{.name = "gain", .decay = false};

  explicit Pair(std::int64_t n) : start(normals(n, 1)) {
    matrix.value = upload(device(), {n}, start);
    gain.value = upload(device(), {n}, start);
  }
  void set_gradient(const std::vector<float>& g) {
    gradient = g;
    for (Parameter* p : {&matrix, &gain}) {
      p->grad = upload(device(), p->value.shape(), g);
      p->has_grad = true;
    }
  }
};

TEST(AdamW, FollowsTheDoublePrecisionReferenceForTenSteps) {
  constexpr std::int64_t n = 50;
  const AdamWConfig config{.learning_rate = 0.01f, .weight_decay = 0.1f, .clip_norm = 0};
  Pair run(n);
  AdamW optimizer(device(), {&run.matrix, &run.gain}, config);
  std::vector<Reference> decayed, plain;
  for (float v : run.start) decayed.push_back({v}), plain.push_back({v});
  for (int t = 1; t <= 10; ++t) {
    run.set_gradient(normals(n, unsigned(t)));
    optimizer.step(1);
    for (std::size_t i = 0; i < std::size_t(n); ++i) {
      decayed[i].step(run.gradient[i], config, double(config.weight_decay), t);
      plain[i].step(run.gradient[i], config, 0, t);
    }
  }
  const auto check = [](const Parameter& p, const std::vector<Reference>& want) {
    std::vector<double> values, bounds;
    for (const Reference& r : want) values.push_back(r.value), bounds.push_back(r.error);
    EXPECT_TRUE(within(download(device(), p.value), values, bounds)) << p.name;
  };
  check(run.matrix, decayed);
  check(run.gain, plain);
}

TEST(AdamW, ReturnsTheNormAndClipsByIt) {
  constexpr std::int64_t n = 8;
  Pair run(n);
  const std::vector<float> threes(n, 3);
  run.set_gradient(threes);
  AdamW optimizer(device(), {&run.matrix, &run.gain}, {.beta1 = 0.5f, .clip_norm = 6});
  EXPECT_EQ(optimizer.step(1), 12);  // sqrt(16 * 9)
  for (float m : download(device(), optimizer.m(0)))
    EXPECT_EQ(m, 0.75f);  // half of 3 * 6 / 12, halved by beta1
}

TEST(AdamW, LeavesSmallGradientsAlone) {
  constexpr std::int64_t n = 8;
  Pair run(n);
  run.set_gradient(std::vector<float>(n, 0.25f));
  AdamW optimizer(device(), {&run.matrix, &run.gain}, {.beta1 = 0.5f, .clip_norm = 6});
  EXPECT_EQ(optimizer.step(1), 1);
  for (float m : download(device(), optimizer.m(0))) EXPECT_EQ(m, 0.125f);
}

TEST(AdamW, ScalesTheLearningRateByTheFactor) {
  Pair run(4);
  run.set_gradient(std::vector<float>(4, 1));
  AdamW optimizer(device(), {&run.matrix, &run.gain}, {.learning_rate = 0.5f, .eps = 0, .clip_norm = 0});
  optimizer.step(0.25f);
  const std::vector<float> after = download(device(), run.gain.value);
  // The first step of Adam without eps is learning_rate * sign(gradient); 6 roundings.
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(after[i], run.start[i] - 0.125, gamma(6) * (std::abs(run.start[i]) + 0.125));
}

TEST(AdamW, MarksGradientsAsUsedAndCountsVersions) {
  Pair run(4);
  run.set_gradient(std::vector<float>(4, 1));
  AdamW optimizer(device(), {&run.matrix, &run.gain}, {});
  optimizer.step(1);
  EXPECT_FALSE(run.matrix.has_grad);
  EXPECT_EQ(run.matrix.version, 2u);
  EXPECT_EQ(optimizer.steps_done(), 1);
}

/// Every slot of the weight stochastic, so that copies differ from version to version, the signs too.
LinearQuant drawn_quant() {
  LinearQuant q;
  q.fprop_w = q.dgrad_w = parse_quantizer("mxfp4 round=stochastic");
  q.dgrad_rotation = {32, SignsPer::step};
  return q;
}
bool make_copies(Parameter& w) {
  return make_weight_copies(device(), w, use_of(w, drawn_quant(), 8, {.seed = 3}, device().gemm_kernels()),
                            true);
}

TEST(AdamW, RenewsCopiesInPlaceAsIfTheyWereMadeFromTheNewWeight) {
  constexpr std::int64_t rows = 40, cols = 64;
  Pair run(rows * cols);
  Parameter& w = run.matrix;
  w.value = w.value.reshaped({rows, cols});
  run.set_gradient(normals(rows * cols, 5));
  ASSERT_TRUE(make_copies(w));
  const void* const places[] = {w.copies.fprop.elements.raw(), w.copies.dgrad.elements.raw()};
  AdamW optimizer(device(), {&w, &run.gain}, {});
  for (int step = 0; step < 2; ++step) {
    run.set_gradient(normals(rows * cols, unsigned(step)));
    optimizer.step(1);
    EXPECT_FALSE(make_copies(w)) << "nothing is missing or stale";
    EXPECT_EQ(w.copies.fprop.elements.raw(), places[0]);
    EXPECT_EQ(w.copies.dgrad.elements.raw(), places[1]);
    Parameter fresh{.name = "fresh", .value = w.value, .version = w.version};
    ASSERT_TRUE(make_copies(fresh));
    EXPECT_EQ(download(device(), w.copies.fprop.elements), download(device(), fresh.copies.fprop.elements));
    EXPECT_EQ(download(device(), w.copies.dgrad.elements), download(device(), fresh.copies.dgrad.elements));
  }
}

TEST(AdamW, RenewsCopiesThatAreMadeFromTheForwards) {
  constexpr std::int64_t rows = 40, cols = 64;
  for (const auto& [forward, backward, source] :
       {std::tuple{"mxfp4 alpha=0.75", "mxfp4 round=stochastic", OperandSource::forward},
        std::tuple{"mxfp4", "mxfp6", OperandSource::forward},
        std::tuple{"nvfp4", "nvfp4", OperandSource::forward},
        std::tuple{"f32", "mxfp4", OperandSource::forward},
        std::tuple{"nvfp4", "f32", OperandSource::forward},
        std::tuple{"mxfp4", "f32", OperandSource::shared}}) {
    LinearQuant q;
    q.fprop_w = parse_quantizer(forward), q.dgrad_w = parse_quantizer(backward), q.dgrad_source = source;
    const auto make = [&](Parameter& w) {
      return make_weight_copies(device(), w, use_of(w, q, 8, {.seed = 3}, device().gemm_kernels()), true);
    };
    Pair run(rows * cols);
    Parameter& w = run.matrix;
    w.value = w.value.reshaped({rows, cols});
    ASSERT_TRUE(make(w));
    const void* const place = w.copies.dgrad.elements.raw();
    AdamW optimizer(device(), {&w, &run.gain}, {});
    for (int step = 0; step < 2; ++step) {
      const auto before = download(device(), w.copies.dgrad.elements);
      run.set_gradient(normals(rows * cols, unsigned(step)));
      optimizer.step(100);
      EXPECT_FALSE(make(w)) << "nothing is missing or stale";
      EXPECT_EQ(w.copies.dgrad.elements.raw(), place);
      Parameter fresh{.name = "fresh", .value = w.value, .version = w.version};
      ASSERT_TRUE(make(fresh));
      const auto now = download(device(), w.copies.dgrad.elements);
      EXPECT_EQ(now, download(device(), fresh.copies.dgrad.elements)) << forward << ", " << backward;
      EXPECT_NE(now, before);
      ASSERT_EQ(bool(w.copies.dgrad.multiplier), bool(fresh.copies.dgrad.multiplier));
      if (!w.copies.dgrad.multiplier) continue;
      EXPECT_EQ(download(device(), w.copies.dgrad.multiplier),
                download(device(), fresh.copies.dgrad.multiplier));
    }
  }
}

TEST(AdamW, LetsCopiesGoThatAreStaleOrWhoseUpdateFailed) {
  Pair run(64);
  Parameter& w = run.matrix;
  w.value = w.value.reshaped({2, 32});
  AdamW optimizer(device(), {&w, &run.gain}, {});
  const auto step = [&](float gradient) {
    make_copies(w);
    run.set_gradient(std::vector<float>(64, gradient));
    if (gradient == 0) ++w.version;  // the value was written by someone else
    optimizer.step(1);
    return bool(w.copies.fprop.elements);
  };
  EXPECT_TRUE(step(1));
  EXPECT_FALSE(step(0));
  EXPECT_FALSE(step(NAN));
}

TEST(AdamW, GoesOnFromACheckpointLikeTheUninterruptedRun) {
  Pair whole(16), resumed(16);
  AdamW first(device(), {&whole.matrix, &whole.gain}, {});
  for (int t = 0; t < 3; ++t) {
    whole.set_gradient(normals(16, unsigned(t)));
    first.step(1);
  }
  AdamW second(device(), {&resumed.matrix, &resumed.gain}, {});
  device().copy(resumed.matrix.value, whole.matrix.value);
  device().copy(resumed.gain.value, whole.gain.value);
  for (std::size_t i = 0; i < 2; ++i) {
    device().copy(second.m(i), first.m(i));
    device().copy(second.v(i), first.v(i));
  }
  second.set_steps_done(3);
  EXPECT_EQ(resumed.matrix.version, whole.matrix.version);
  for (Pair* run : {&whole, &resumed}) run->set_gradient(normals(16, 9));
  EXPECT_EQ(first.step(1), second.step(1));
  EXPECT_EQ(download(device(), resumed.matrix.value), download(device(), whole.matrix.value));
  EXPECT_EQ(resumed.matrix.version, whole.matrix.version);
}

TEST(AdamW, NamesAParameterWithoutGradient) {
  Pair run(4);
  AdamW optimizer(device(), {&run.matrix}, {});
  try {
    optimizer.step(1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "adamw: parameter 'matrix' has no gradient; it took no part in the loss");
  }
}

}  // namespace
}  // namespace mxtape
