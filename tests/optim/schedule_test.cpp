#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mxtape {
namespace {

// Results are computed in double and rounded to float once; final_fraction itself is a float.
constexpr double tolerance = 0x1p-23;

double factor(const ScheduleConfig& c, std::int64_t step, std::int64_t total = 1000) {
  return learning_rate_factor(c, step, total);
}

TEST(Schedule, WarmsUpInEqualStepsToThePeak) {
  for (ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    const ScheduleConfig c{.kind = kind, .warmup_steps = 100};
    EXPECT_NEAR(factor(c, 0), 1.0 / 101, tolerance);
    EXPECT_NEAR(factor(c, 49), 50.0 / 101, tolerance);
    EXPECT_NEAR(factor(c, 99), 100.0 / 101, tolerance);
    EXPECT_EQ(factor(c, 100), 1);
  }
}

TEST(Schedule, StartsAtThePeakWithoutWarmUp) {
  for (ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd})
    EXPECT_EQ(factor({.kind = kind, .warmup_steps = 0}, 0), 1);
}

TEST(Schedule, ConstantStaysAtThePeak) {
  const ScheduleConfig c{.kind = ScheduleKind::constant, .warmup_steps = 100};
  EXPECT_EQ(factor(c, 500), 1);
  EXPECT_EQ(factor(c, 999), 1);
}

TEST(Schedule, LinearGoesStraightDown) {
  const ScheduleConfig c{.kind = ScheduleKind::linear, .warmup_steps = 100, .final_fraction = 0.1f};
  EXPECT_NEAR(factor(c, 550), 0.55, tolerance);  // half way from 1 to 0.1
  EXPECT_NEAR(factor(c, 325), 0.775, tolerance);
  EXPECT_NEAR(factor(c, 1000), 0.1, tolerance);
}

TEST(Schedule, CosineIsThatOfNanoGpt) {
  const ScheduleConfig c{.kind = ScheduleKind::cosine, .warmup_steps = 100, .final_fraction = 0.1f};
  EXPECT_NEAR(factor(c, 550), 0.55, tolerance);                                  // cos(pi/2) = 0
  EXPECT_NEAR(factor(c, 400), 0.1 + 0.9 * 0.75, tolerance);                      // cos(pi/3) = 1/2
  EXPECT_NEAR(factor(c, 325), 0.1 + 0.9 * (0.5 + std::sqrt(0.125)), tolerance);  // cos(pi/4)
  EXPECT_NEAR(factor(c, 1000), 0.1, tolerance);
}

TEST(Schedule, WsdStaysAndThenGoesStraightDown) {
  const ScheduleConfig c{
      .kind = ScheduleKind::wsd, .warmup_steps = 100, .final_fraction = 0, .decay_fraction = 0.25f};
  EXPECT_EQ(factor(c, 500), 1);
  EXPECT_EQ(factor(c, 750), 1);
  EXPECT_NEAR(factor(c, 875), 0.5, tolerance);
  EXPECT_NEAR(factor(c, 999), 1.0 / 250, tolerance);
}

TEST(Schedule, WsdWithoutADecayStaysAtThePeak) {
  for (const float share : {0.f, 1e-9f})  // 1 - 1e-9f is 1
    for (const std::int64_t step : {100, 500, 999})
      EXPECT_EQ(factor({.kind = ScheduleKind::wsd, .warmup_steps = 100, .decay_fraction = share}, step), 1);
}

TEST(Schedule, StaysAtTheEndAfterTheLastStep) {
  for (ScheduleKind kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd})
    EXPECT_NEAR(factor({.kind = kind, .final_fraction = 0.1f}, 5000), 0.1, tolerance);
}

TEST(Schedule, ARunShorterThanItsWarmUpEndsWarmingUp) {
  EXPECT_NEAR(factor({.warmup_steps = 100}, 9, 10), 10.0 / 101, tolerance);
  EXPECT_NEAR(factor({.kind = ScheduleKind::linear, .warmup_steps = 100, .final_fraction = 0.1f}, 100, 10),
              0.1, tolerance);
}

}  // namespace
}  // namespace mxtape
