// In which order buckets are sent while backward completes parameters.
#include "train/devices/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.h"

namespace mxtape::test {
namespace {

std::vector<Shape> random_parameters(std::mt19937& random) {
  std::vector<Shape> shapes;
  const std::size_t count = 1 + random() % 20;
  for (std::size_t i = 0; i < count; ++i)
    shapes.push_back(random() % 2 ? Shape{std::int64_t(1 + random() % 500)}
                                  : Shape{std::int64_t(1 + random() % 40), std::int64_t(1 + random() % 40)});
  return shapes;
}

TEST(Completion, BucketsComeInTheOrderOfTheLayoutEachWhenItAndAllBeforeItAreComplete) {
  std::mt19937 random(5);
  std::int64_t early = 0, waited = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto shapes = random_parameters(random);
    const auto layout = make_buckets(shapes, 1 + random() % 2000);
    Completion completion(layout, shapes.size());
    for (int strand = 0; strand < 2; ++strand) {
      completion.begin();
      std::vector<std::size_t> order(shapes.size());
      std::iota(order.begin(), order.end(), 0u);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<bool> complete(shapes.size());
      const auto is_complete = [&](const Bucket& bucket) {
        return std::all_of(bucket.slots.begin(), bucket.slots.end(),
                           [&](const InBucket& slot) { return bool(complete[slot.parameter]); });
      };
      std::size_t taken = 0;
      for (const std::size_t parameter : order) {
        EXPECT_FALSE(completion.is_at_end());
        completion.complete(parameter);
        complete[parameter] = true;
        while (const auto next = completion.next()) ASSERT_EQ(*next, taken++);
        for (std::size_t b = 0; b < taken; ++b) ASSERT_TRUE(is_complete(layout[b]));
        if (taken < layout.size()) {
          ASSERT_FALSE(is_complete(layout[taken]));
        }
        early += parameter != order.back() && taken > 0;
        waited += std::count_if(layout.begin() + std::ptrdiff_t(taken), layout.end(), is_complete);
      }
      ASSERT_EQ(taken, layout.size());
      EXPECT_TRUE(completion.is_at_end());
      EXPECT_FALSE(completion.next());
    }
  }
  EXPECT_GT(early, 1000);
  EXPECT_GT(waited, 1000);
}

TEST(Completion, AParameterThatIsCompleteTwiceIsAnError) {
  const std::vector<Shape> shapes{{3}, {4}};
  const auto layout = make_buckets(shapes);
  Completion completion(layout, shapes.size());
  completion.complete(1);
  EXPECT_THROW(completion.complete(1), Error);
}

}  // namespace
}  // namespace mxtape::test
