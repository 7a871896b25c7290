#include "core/text/nearest_name.h"

#include <gtest/gtest.h>

#include <array>

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 4> names{"beta1", "beta2", "eps", "weight_decay"};

TEST(NearestName, DistanceCountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("wieght_decay", "weight_decay"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment: no edit inside a swapped pair
}

TEST(NearestName, NamesThatTieAreAllOffered) {
  EXPECT_EQ(suggestion("beta", names), "; did you mean 'beta1' or 'beta2'?");
  EXPECT_EQ(suggestion("betta2", names), "; did you mean 'beta2'?");
}

TEST(NearestName, LettersLeftOutCountHalf) {
  constexpr std::array<std::string_view, 3> keys{"precision.head", "precision.gradients",
                                                 "precision.weights"};
  EXPECT_EQ(suggestion("precision.grads", keys), "; did you mean 'precision.gradients'?");
  EXPECT_EQ(suggestion("precision.haed", keys), "; did you mean 'precision.head'?");
}

TEST(NearestName, AWordThatIsNoMisspellingGetsTheWholeList) {
  EXPECT_EQ(suggestion("momentum", names), "; known: beta1 beta2 eps weight_decay");
}

}  // namespace
}  // namespace mxtape
