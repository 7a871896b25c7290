#include "core/memory/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "core/error.h"

namespace mxtape {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.birth < b.death && b.birth < a.death; }

/// Work like a training step's: a stack of pieces that grows and then shrinks, with short-lived ones between.
std::vector<Lifetime> random_trace(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Lifetime> pieces;
  std::vector<std::size_t> living;
  const int events = 1 + int(random() % 400);
  for (std::int64_t time = 0; time < events; ++time) {
    if (living.empty() || random() % 100 < 55) {
      living.push_back(pieces.size());
      pieces.push_back({std::int64_t(random() % (random() % 4 ? 5000u : 200'000u)), time, Lifetime::never});
    } else {
      const std::size_t back = random() % std::min<std::size_t>(living.size(), random() % 3 ? 2 : 100);
      const auto dead = living.end() - 1 - std::ptrdiff_t(back);
      pieces[*dead].death = time;
      living.erase(dead);
    }
  }
  return pieces;
}

TEST(Layout, PiecesThatAreWantedAtTheSameTimeShareNoByte) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto pieces = random_trace(seed);
    const MemoryLayout layout = plan_layout(pieces);
    ASSERT_EQ(layout.offsets.size(), pieces.size());
    for (std::size_t a = 0; a < pieces.size(); ++a) {
      ASSERT_EQ(layout.offsets[a] % MemoryLayout::alignment, 0);
      ASSERT_LE(layout.offsets[a] + pieces[a].bytes, layout.bytes);
      for (std::size_t b = 0; b < a; ++b)
        ASSERT_TRUE(!meet(pieces[a], pieces[b]) || layout.offsets[a] + pieces[a].bytes <= layout.offsets[b] ||
                    layout.offsets[b] + pieces[b].bytes <= layout.offsets[a])
            << "seed " << seed << ", pieces " << b << " and " << a;
    }
  }
}

/// The block that an allocator needs which sees one request after the other: each in the lowest gap.
std::int64_t bytes_by_first_fit(const std::vector<Lifetime>& pieces) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places;  // begin, end
  std::int64_t bytes = 0;
  for (const Lifetime& piece : pieces) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (meet(piece, pieces[i])) taken.push_back(places[i]);
    std::sort(taken.begin(), taken.end());
    const std::int64_t size = std::max<std::int64_t>((piece.bytes + 255) / 256, 1) * 256;
    std::int64_t begin = 0;
    for (const auto& [other, end] : taken) {
      if (other - begin >= size) break;
      begin = std::max(begin, end);
    }
    places.emplace_back(begin, begin + size);
    bytes = std::max(bytes, begin + size);
  }
  return bytes;
}

TEST(Layout, TheBlockHoldsTheLivingPiecesAndWastesLessThanHalfOfWhatFirstFitWastes) {
  double waste = 0, first_fit_waste = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto pieces = random_trace(seed);
    const auto least = double(most_live_bytes(pieces));
    const auto planned = double(plan_layout(pieces).bytes);
    ASSERT_GE(planned, least);
    waste += planned / least - 1;
    first_fit_waste += double(bytes_by_first_fit(pieces)) / least - 1;
  }
  EXPECT_LT(waste, first_fit_waste / 2);
}

TEST(Layout, NestedLifetimesFitExactly) {
  // A forward pass and its backward pass: the last made is the first to go.
  std::vector<Lifetime> pieces;
  std::int64_t sum = 0;
  for (int i = 0; i < 50; ++i) {
    pieces.push_back({256 * (1 + i * 7 % 13), i, 200 - i});
    sum += pieces.back().bytes;
  }
  EXPECT_EQ(most_live_bytes(pieces), sum);
  EXPECT_EQ(plan_layout(pieces).bytes, sum);
}

TEST(Layout, APieceTakesTheSmallestGapThatHoldsIt) {
  // Gaps of 3 and 2 units under the three large ones, left by their neighbours in time.
  const std::vector<Lifetime> pieces{{256 * 3, 0, 2}, {256 * 9, 0, 9}, {256 * 2, 0, 2},
                                     {256 * 8, 0, 9}, {256 * 2, 3, 9}, {256 * 3, 4, 9}};
  const MemoryLayout layout = plan_layout(pieces);
  EXPECT_EQ(layout.bytes, 256 * 22);
}

TEST(Layout, NoPiecesNeedNoBlockAndAnEmptyPieceHasAnAddressOfItsOwn) {
  EXPECT_EQ(plan_layout({}).bytes, 0);
  const std::vector<Lifetime> pieces{{0, 0, 3}, {0, 1, 3}};
  const MemoryLayout layout = plan_layout(pieces);
  EXPECT_NE(layout.offsets[0], layout.offsets[1]);
}

TEST(Layout, PiecesOutOfOrderAreAnError) {
  const std::vector<Lifetime> pieces{{256, 5, 9}, {256, 1, 9}};
  EXPECT_THROW(plan_layout(pieces), Error);
}

}  // namespace
}  // namespace mxtape
