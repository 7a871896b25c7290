#include "program/records/oscillation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

/// One weight [16, 4] of a layer that nothing trains: the test moves it.
struct OneWeight {
  std::unique_ptr<Backend> backend = make_backend("cpu");
  Parameter parameter{};
  LinearQuant quant;
  std::vector<float> w = std::vector<float>(64, 0.0f);
  Oscillation oscillation;

  explicit OneWeight(const LinearQuant& q)
      : quant(q), oscillation(*backend, {LinearWeight{"layer", parameter, quant, 0}}, 1 << 10, 1) {
    parameter.value = backend->empty({16, 4});
    put();
  }
  void put() { backend->upload(parameter.value, w.data()); }
  void move_to(std::size_t i, float value) {
    w[i] = value;
    put();
    oscillation.look();
  }
};

LinearQuant int4_weights() {
  LinearQuant quant;
  quant.fprop_w = parse_quantizer("int4");  // a plain cast to multiples of a quarter
  return quant;
}

TEST(Oscillation, IsHowFarRoundedWeightsWentOverHowFarWeightsDidStepByStep) {
  OneWeight one(int4_weights());
  one.w[0] = 0.12f;
  one.put();
  one.oscillation.begin();
  // Over the edge at an eighth and back, twice: net nothing. The other drifts from 0 to 1.
  for (const float v : {0.13f, 0.12f, 0.13f, 0.12f}) one.move_to(0, v);
  for (const float v : {0.25f, 0.5f, 0.75f, 1.0f}) one.move_to(1, v);
  const auto found = one.oscillation.end();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].layer, "layer");
  EXPECT_EQ(found[0].steps, 8);
  EXPECT_EQ(found[0].weights, 64);
  EXPECT_NEAR(found[0].ratio, (4 * 0.25 + 1) / (4 * 0.01 + 1), 1e-6);  // w in f32: seven digits
  EXPECT_EQ(found[0].share, 0.5) << "d_q / d_w is 25 for one of the two that moved, and 1 for the other";
}

TEST(Oscillation, OfWeightsThatNothingRoundsThatDoNotMoveOrWhoseSignsChangeIsNotSaid) {
  LinearQuant turned = int4_weights(), fixed = turned;
  turned.fprop_rotation = parse_rotation("hadamard=4 signs=step");
  fixed.fprop_rotation = parse_rotation("hadamard=4 signs=none");
  const auto layers = [](const LinearQuant& quant, bool moves) {
    OneWeight one(quant);
    one.oscillation.begin();
    one.move_to(0, moves ? 3.0f : 0.0f);
    return one.oscillation.end().size();
  };
  EXPECT_EQ(layers(int4_weights(), true), 1u);
  EXPECT_EQ(layers(fixed, true), 1u);
  EXPECT_EQ(layers({}, true), 0u);
  EXPECT_EQ(layers(turned, true), 0u);
  EXPECT_EQ(layers(int4_weights(), false), 0u);
}

TEST(Oscillation, ARoundingThatChangesMovesNothingByItself) {
  OneWeight one(int4_weights());
  one.w[0] = 0.4f;
  one.put();
  one.oscillation.begin();
  one.move_to(0, 1.4f);                                            // rounded 0.5 to 1.5
  one.quant.fprop_w = parse_quantizer("int8 scale=e8m0 block=4");  // steps of 2^-6 here: fine ones
  one.move_to(0, 1.4f);
  const auto found = one.oscillation.end();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].ratio, 1, 1e-6);
}

}  // namespace
}  // namespace mxtape::test
