#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace mxtape {
namespace {

/// Tokens 0, 1, 2 ...: a token is its own position.
Split counting(std::int32_t n) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return Split::from_tokens(tokens, 65536);
}

TEST(Loader, TargetsAreTheInputsOneLater) {
  const Split split = counting(1000);
  const auto batch = Loader(split, 4, 16, 1).at(3);
  ASSERT_EQ(batch.inputs.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
    EXPECT_TRUE(i % 16 == 0 || batch.inputs[i] == batch.inputs[i - 1] + 1);
  }
}

TEST(Loader, PositionDependsOnSeedAndStepAlone) {
  const Split split = counting(1000);
  const Loader loader(split, 4, 16, 1);
  const auto first = loader.at(7).inputs;
  loader.at(8);
  EXPECT_EQ(loader.at(7).inputs, first);
  EXPECT_NE(loader.at(8).inputs, first);
  EXPECT_NE(Loader(split, 4, 16, 2).at(7).inputs, first);
}

TEST(Loader, SmallPassesSeeTheRowsOfTheBigBatch) {
  const Split split = counting(1000);
  const auto big = Loader(split, 12, 8, 5).at(2).inputs;
  std::vector<std::int32_t> parts;
  for (std::uint32_t pass = 6; pass < 9; ++pass) {
    const auto part = Loader(split, 4, 8, 5).at(pass).inputs;
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, big);
}

TEST(Loader, EveryStartIsDrawnEquallyOften) {
  const Split split = counting(20);  // windows of 10 start at 0 ... 9
  std::vector<int> drawn(10);
  constexpr int rows = 100'000;
  for (std::uint32_t step = 0; step < rows / 100; ++step) {
    const auto batch = Loader(split, 100, 10, 1).at(step);
    for (std::size_t row = 0; row < 100; ++row) ++drawn[std::size_t(batch.inputs[row * 10])];
  }
  // Binomial with mean 10,000 and deviation sqrt(n p (1 - p)) = 95: five of them.
  for (const int count : drawn) EXPECT_NEAR(count, rows / 10, 5 * std::sqrt(rows * 0.1 * 0.9));
}

TEST(Windows, CoverTheSplitOnceAndLeaveOutTheRaggedEnd) {
  const Split split = counting(35);
  const Windows windows(split, 8);
  ASSERT_EQ(windows.count(), 4);  // 34 targets, 32 used
  const auto all = windows.at(0, 4), rest = windows.at(2, 2);
  for (std::int32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(all.inputs[std::size_t(i)], i);
    EXPECT_EQ(all.targets[std::size_t(i)], i + 1);
  }
  EXPECT_TRUE(std::equal(rest.inputs.begin(), rest.inputs.end(), all.inputs.begin() + 16));
  EXPECT_EQ(Windows(counting(33), 8).count(), 4);
  EXPECT_EQ(Windows(counting(32), 8).count(), 3);
}

TEST(Loader, ASplitShorterThanAWindowAndItsTargetsIsRefused) {
  const Split split = counting(8);
  try {
    Loader(split, 1, 8, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.code()), int(ExitCode::data));
    EXPECT_STREQ(
        error.what(),
        "the training split has 8 tokens, a window of 8 and its targets need 9; take more text or a shorter "
        "window");
  }
  EXPECT_THROW(Windows(split, 8), Error);
  EXPECT_EQ(Loader(split, 1, 7, 1).at(0).inputs[0], 0) << "one window fits";
}

}  // namespace
}  // namespace mxtape
