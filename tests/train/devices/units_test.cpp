#include "train/devices/units.h"

#include <set>

#include "tests/support/for_all.h"

namespace mxtape::test {
namespace {

std::vector<Shape> random_shapes(Random& random) {
  std::vector<Shape> shapes;
  for (std::int64_t i = integer_in(random, 1, 12); i > 0; --i) {
    const std::int64_t cols = integer_in(random, 1, 3000);
    if (random() % 3 == 0)
      shapes.push_back({cols});
    else
      shapes.push_back({integer_in(random, 1, 2000), cols});
  }
  return shapes;
}

TEST(Units, AreWholeStripsOf32RowsAndAtLeast16Ki) {
  EXPECT_EQ(elements_of_a_unit({50304, 768}), 32 * 768);
  EXPECT_EQ(elements_of_a_unit({384, 128}), 128 * 128);
  EXPECT_EQ(elements_of_a_unit({1024, 384}), 64 * 384);
  EXPECT_EQ(elements_of_a_unit({100000}), 100000);
}

TEST(Units, EachElementHasOneOwnerAndCutsLieBetweenUnits) {
  int cases = 0;
  for_all("one owner", 10000, random_shapes, [&](const std::vector<Shape>& shapes) {
    ++cases;
    const auto buckets = make_buckets(shapes);
    const int devices = 1 + cases % 9;
    std::vector<std::int64_t> owned(shapes.size(), 0);  // elements of each parameter, so far
    std::vector<std::int64_t> units(shapes.size(), 0);
    for (const Bucket& bucket : buckets) {
      std::int64_t end = 0;
      for (const Shard& shard : cut(bucket, devices)) {
        if (shard.first != end) return false;
        end += shard.count;
        for (const Piece& piece : shard.pieces) {
          if (piece.first != owned[piece.parameter]) return false;
          if (piece.first % elements_of_a_unit(shapes[piece.parameter]) != 0) return false;
          if (piece.in_bucket < shard.first || piece.in_bucket + piece.count > end) return false;
          owned[piece.parameter] += piece.count;
          units[piece.parameter] += piece.units;
        }
      }
      if (end != bucket.count) return false;
    }
    std::int64_t all = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (owned[i] != shapes[i].count()) return false;
      all += units[i];
    }
    return all == count_units(buckets);
  });
  EXPECT_EQ(cases, 10000);
}

TEST(Units, AreNumberedInTheOrderOfTheParametersOnAnyNumberOfDevices) {
  for_all("numbers", 1000, random_shapes, [&](const std::vector<Shape>& shapes) {
    const auto buckets = make_buckets(shapes);
    for (int devices = 1; devices <= 5; ++devices) {
      std::set<std::int64_t> seen;
      for (const Bucket& bucket : buckets)
        for (const Shard& shard : cut(bucket, devices))
          for (const Piece& piece : shard.pieces)
            for (std::int64_t i = 0; i < piece.units; ++i) {
              std::int64_t number =
                  (piece.first + i * piece.unit) / elements_of_a_unit(shapes[piece.parameter]);
              for (std::size_t before = 0; before < piece.parameter; ++before)
                number += (shapes[before].count() - 1) / elements_of_a_unit(shapes[before]) + 1;
              if (number != piece.first_unit + i || !seen.insert(number).second) return false;
            }
      if (std::int64_t(seen.size()) != count_units(buckets)) return false;
    }
    return true;
  });
}

// GPT-2 124M's largest bucket in eight: no shard is 3 % above the mean.
TEST(Units, ShardsOfALargeBucketAreNearlyEqual) {
  const std::vector<Shape> block{{768}, {2304, 768}, {768, 768}, {768}, {3072, 768}, {768, 3072}};
  for (const Shard& shard : cut(make_buckets(block).front(), 8))
    EXPECT_LT(double(shard.count) * 8, 1.03 * double(make_buckets(block).front().count));
}

}  // namespace
}  // namespace mxtape::test
