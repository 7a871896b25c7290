// Whole training steps on a device, against the CPU. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "tests/support/device.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

Backend& the_cpu() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

/// A trainer on a backend that it does not own.
struct RunOn {
  Backend& backend;
  TokenFile data = tiny_data();
  Trainer trainer;

  RunOn(Backend& on, const Recipe& recipe) : backend(on), trainer(on, recipe, data) {}

  std::vector<double> losses(std::int64_t steps) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < steps; ++i) all.push_back(trainer.step().loss);
    return all;
  }
  std::vector<std::vector<float>> weights() {
    std::vector<std::vector<float>> all;
    for (const Parameter* p : trainer.model().parameters()) all.push_back(download(backend, p->value));
    return all;
  }
  /// Moves every weight at random by at most `share` of itself.
  void move_weights(float share, std::uint64_t seed) {
    std::uint32_t id = 0;
    for (Parameter* p : trainer.model().parameters()) {
      const DrawKey draws{.seed = seed, .tensor_id = id++};
      auto values = download(backend, p->value);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + share * (2 * draws.uniform(i) - 1);
      backend.upload(p->value, values.data());
    }
  }
};

double largest_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

constexpr std::int64_t steps = 6;

Recipe with_bf16_activations(Recipe r) {
  r.compute.activations = ActivationType::bf16;
  return r;
}
Recipe in_bf16(Recipe r) {
  r.precision.weights = r.precision.activations = r.precision.gradients = r.precision.head =
      r.precision.attention = "bf16";
  return r;
}
Recipe with_mx_attention(Recipe r) {
  r.precision.attention = "mxfp8";
  return r;
}

struct Case {
  const char* name;
  Recipe recipe;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
class DeviceTraining : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Recipes, DeviceTraining,
    testing::Values(Case{"f32", tiny_recipe(steps)}, Case{"bf16", in_bf16(tiny_recipe(steps))},
                    Case{"mxfp4", tiny_mxfp4_recipe(steps)},
                    Case{"mxfp4_with_mxfp8_attention", with_mx_attention(tiny_mxfp4_recipe(steps))},
                    Case{"mxfp4_with_bf16_activations", with_bf16_activations(tiny_mxfp4_recipe(steps))}),
    [](const auto& info) { return std::string(info.param.name); });

// The device adds in another order than the CPU: results differ by gamma(K) of themselves at most, K = 128
// terms in the longest sum, as if operands had been moved by that share. What such a move of all weights does
// to the CPU's losses, roundings to 4 bits that flip included, is the yardstick; it is one draw of many,
// hence the factor. With bf16 activations a flip is one of 2^-9, whatever caused it.
TEST_P(DeviceTraining, FollowsTheCpu) {
  const Recipe& recipe = GetParam().recipe;
  const auto want = RunOn(the_cpu(), recipe).losses(steps), got = RunOn(device(), recipe).losses(steps);
  double moved = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    RunOn run(the_cpu(), recipe);
    run.move_weights(128 * 0x1p-24f, seed);
    moved = std::max(moved, largest_distance(run.losses(steps), want));
  }
  EXPECT_LE(largest_distance(got, want), 4 * moved) << GetParam().name;
  EXPECT_LT(got.back(), got.front());
}

TEST_P(DeviceTraining, GivesTheSameBitsTwice) {
  RunOn first(device(), GetParam().recipe), second(device(), GetParam().recipe);
  EXPECT_EQ(first.losses(4), second.losses(4));
  EXPECT_EQ(first.weights(), second.weights());
}

TEST(DeviceCheckpoint, IsReadByTheCpuAndTheCpusByTheDevice) {
  const TemporaryFolder folder;
  const Recipe recipe = tiny_mxfp4_recipe(steps);
  Backend* const both[] = {&device(), &the_cpu()};
  for (const int writer : {0, 1}) {
    RunOn wrote(*both[writer], recipe), reads(*both[1 - writer], recipe);
    wrote.losses(2);
    const auto path = folder.path() / (writer ? "cpu.h5" : "device.h5");
    wrote.trainer.save(path);
    reads.trainer.load(CheckpointFile(path));
    EXPECT_EQ(reads.trainer.steps_done(), 2);
    EXPECT_EQ(reads.weights(), wrote.weights());
  }
}

}  // namespace
}  // namespace mxtape::test
