#include "train/high_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace mxtape {
namespace {

using Steps = std::vector<std::size_t>;

/// The steps, counted from 1, at which a curve has spikes.
Steps spikes_of(const std::vector<double>& losses, std::int64_t vocabulary) {
  LossSpike spike(vocabulary);
  Steps steps;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (spike.look_at(losses[i])) steps.push_back(i + 1);
  return steps;
}

TEST(LossSpike, IsALossFarAboveTheOnesBeforeIt) {
  LossSpike spike(1000);
  for (std::size_t i = 0; i < LossSpike::window; ++i) EXPECT_FALSE(spike.look_at(3 + (i % 2 ? 0.01 : -0.01)));
  EXPECT_FALSE(spike.look_at(3.05));  // five standard deviations
  const auto found = spike.look_at(3.2);
  ASSERT_TRUE(found.has_value());
  EXPECT_GT(found->z, 6);
  EXPECT_FALSE(found->unlearned.has_value());
}

// A small model on the synthetic corpus of 60 characters, bf16, five steps of warm-up: at a learning rate of
// 8e-3 it forgets at step 10, and stays above 2.8, where 2e-3 ends at 2.4.
TEST(LossSpike, IsFoundInTheFirstStepsOfARunThatForgets) {
  EXPECT_EQ(spikes_of({4.14, 3.94, 3.71, 3.54, 3.37, 3.23, 3.12, 3.09, 3.09, 4.56, 3.71, 3.14, 3.16, 3.04,
                       3.06, 3.13, 3.01, 3.06, 3.02, 3.21, 3.16, 3.11, 3.05, 2.95, 3.02, 2.97, 3.05, 3.16,
                       3.09, 3.23, 3.02, 3.04, 2.99, 3.04, 2.97, 2.97, 3.01, 2.99, 3,    3.04},
                      60),
            Steps{10});
  EXPECT_EQ(spikes_of({4.14, 4.07, 3.96, 3.82, 3.73, 3.65, 3.57, 3.5,  3.42, 3.38, 3.32, 3.24, 3.22, 3.1,
                       3.11, 3.14, 3.22, 3.03, 3.02, 3.06, 3.06, 2.98, 2.89, 2.88, 2.93, 2.83, 2.91, 2.97,
                       2.98, 3.06, 2.86, 2.85, 2.84, 2.86, 2.82, 2.8,  2.78, 2.81, 2.78, 2.84},
                      60),
            Steps{});
}

TEST(LossSpike, TellsWhatShareOfTheLearnedWasGivenBackOnceUntilItIsLearnedAgain) {
  LossSpike spike(100);
  const double guessing = std::log(100.0);
  for (int step = 0; step < 10; ++step) EXPECT_FALSE(spike.look_at(guessing - 0.2 * step));
  // The mean of the last eight: 1.1 was learned. A steady fall of 0.2 counts as noise of 0.14.
  const auto found = spike.look_at(guessing - 0.1);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(*found->unlearned, 1.0 / 1.1, 1e-12);
  EXPECT_NEAR(found->z, 1.0 / (0.2 / std::sqrt(2.0)), 1e-9);
  for (int step = 0; step < 5; ++step) EXPECT_FALSE(spike.look_at(guessing - 0.2)) << "the same one";
  for (int step = 0; step < 30; ++step) EXPECT_FALSE(spike.look_at(guessing - 3)) << "over";
  EXPECT_TRUE(spike.look_at(guessing + 3).has_value()) << "another";
}

// exp(-t / tau) from guessing to 1 nat, with normal noise.
TEST(LossSpike, IsNoNoiseOfAHealthyRunOfAnyLength) {
  std::mt19937 generator(1);
  for (const double noise : {0.003, 0.03, 0.1, 0.2})
    for (const double tau : {20.0, 200.0})
      for (int run = 0; run < 50; ++run) {
        std::normal_distribution<double> normal(0, noise);
        std::vector<double> losses;
        for (int step = 0; step < 400; ++step)
          losses.push_back(1 + (std::log(60.0) - 1) * std::exp(-step / tau) + normal(generator));
        EXPECT_EQ(spikes_of(losses, 60), Steps{}) << noise << " " << tau << " " << run;
      }
}

// A branch begins where its parent was: what it may lose is ln V less that, not what its own steps learned.
TEST(LossSpike, OfABranchIsMeasuredByWhatTheModelKnows) {
  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) losses.push_back(1.2 + (step % 2 ? 0.02 : -0.02));
  losses.push_back(1.5);
  EXPECT_EQ(spikes_of(losses, 60), Steps{}) << "far above the noise, and a tenth of what is known";
  losses.push_back(3.2);
  EXPECT_EQ(spikes_of(losses, 60), Steps{62});
}

}  // namespace
}  // namespace mxtape
