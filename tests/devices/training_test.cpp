// Whole training steps on a device, against the CPU. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/devices/run_on.h"
#include "tests/support/device.h"

namespace mxtape::test {
namespace {

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

// With bf16 activations a flip is one of 2^-9, whatever caused it.
TEST_P(DeviceTraining, FollowsTheCpu) {
  const Recipe& recipe = GetParam().recipe;
  const Course want = RunOn(the_cpu(), recipe).steps(steps), got = RunOn(device(), recipe).steps(steps);
  Yardstick(recipe, want, 128, 8).expect_near(got);
  EXPECT_LT(got.losses.back(), got.losses.front());
}

TEST_P(DeviceTraining, GivesTheSameBitsTwice) {
  RunOn first(device(), GetParam().recipe), second(device(), GetParam().recipe);
  EXPECT_EQ(first.steps(4), second.steps(4));
  EXPECT_EQ(first.weights(), second.weights());
}

TEST(DeviceCheckpoint, IsReadByTheCpuAndTheCpusByTheDevice) {
  const TemporaryFolder folder;
  const Recipe recipe = tiny_mxfp4_recipe(steps);
  Backend* const both[] = {&device(), &the_cpu()};
  for (const int writer : {0, 1}) {
    RunOn wrote(*both[writer], recipe), reads(*both[1 - writer], recipe);
    wrote.steps(2);
    const auto path = folder.path() / (writer ? "cpu.h5" : "device.h5");
    wrote.trainer.save(path);
    reads.trainer.load(CheckpointFile(path));
    EXPECT_EQ(reads.trainer.steps_done(), 2);
    EXPECT_EQ(reads.weights(), wrote.weights());
  }
}

}  // namespace
}  // namespace mxtape::test
