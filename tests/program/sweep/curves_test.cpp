// Curves over seeds, from logs whose losses are written down here.
#include "program/sweep/curves.h"

#include <gtest/gtest.h>

namespace mxtape::test {
namespace {

RunLog log_of(std::vector<double> train, std::vector<RunLog::Point> validation) {
  RunLog log;
  for (std::size_t i = 0; i < train.size(); ++i) log.train.push_back({std::int64_t(i + 1), train[i]});
  log.validation = std::move(validation);
  return log;
}

/// Gaps of training 1, 1, 3, 3 and 2, 2, 4, 4; of validation 0.5 and 1.5 at step 4.
std::vector<RunPair> two_pairs() {
  return {{log_of({6, 5, 6, 5}, {{2, 9}, {4, 4.5}}), log_of({5, 4, 3, 2}, {{4, 4}})},
          {log_of({7, 6, 7, 6}, {{4, 5.5}}), log_of({5, 4, 3, 2}, {{2, 8}, {4, 4}})}};
}

TEST(SweepCurves, ValidationGapsAreMeansOverTheSeedsWithStudentsInterval) {
  const auto pairs = two_pairs();
  const BandCurve curve = gaps_of(pairs, &RunDifference::validation);
  ASSERT_EQ(curve.size(), 1u) << "step 2 was not validated in all runs";
  EXPECT_EQ(curve[0].step, 4);
  EXPECT_EQ(curve[0].mean, 1);
  // Two differences, 1 apart: standard error 0.5, t = 12.7062047.
  EXPECT_NEAR(curve[0].high - curve[0].mean, 12.7062047361746933 * 0.5, 1e-10);
  EXPECT_NEAR(curve[0].mean - curve[0].low, 12.7062047361746933 * 0.5, 1e-10);
}

TEST(SweepCurves, TrainingGapsAreMeansOverWindows) {
  const auto pairs = two_pairs();
  const BandCurve curve = gaps_of(pairs, &RunDifference::training, 2);
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0].mean, 1.5);
  EXPECT_EQ(curve[1].mean, 3.5);
}

TEST(SweepCurves, LossesHaveTheRangeOfTheSeeds) {
  const std::vector<RunLog> logs{two_pairs()[0].arm, two_pairs()[1].arm};
  const BandCurve curve = validation_curve(logs);
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].mean, 5);
  EXPECT_EQ(curve[0].low, 4.5);
  EXPECT_EQ(curve[0].high, 5.5);
}

TEST(SweepCurves, TheJumpIsTheMeanGapOfTheStepsAfterASwitch) {
  const auto pairs = two_pairs();
  EXPECT_EQ(gaps_after(pairs, 2, 2), (std::vector<double>{3, 4}));
  EXPECT_EQ(gaps_after(pairs, 1, 2), (std::vector<double>{2, 3}));
  EXPECT_TRUE(gaps_after(pairs, 3, 2).empty()) << "the runs end before";
}

}  // namespace
}  // namespace mxtape::test
