#include "core/text/nearest_name.h"

#include <gtest/gtest.h>

#include <array>

#include "core/files/atomic_file.h"
#include "tests/support/temporary_folder.h"

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

TEST(NearestName, WhatFollowsADashCountsOne) {
  const std::array<std::string_view, 3> known{"demo-bf16", "demo-mxfp4", "models/demon"};
  EXPECT_EQ(suggestion("demo", known), "; did you mean 'demo-bf16' or 'demo-mxfp4' or 'models/demon'?");
}

TEST(NearestName, APathIsNearToWhatItsFolderHas) {
  const TemporaryFolder folder;
  for (const char* name : {"tales.toml", "tale2.toml", "other.h5"}) write_atomically(folder / name, "x");
  const auto near = [&](const char* name) {
    std::string text = near_path(folder / name);
    for (std::size_t at; (at = text.find(folder.path().string() + "/")) != text.npos;)
      text.erase(at, folder.path().string().size() + 1);
    return text;
  };
  EXPECT_EQ(near("tale.toml"), " (near: 'tale2.toml', 'tales.toml')");
  EXPECT_EQ(near("tales.tml"), " (near: 'tales.toml')");
  EXPECT_EQ(near("paper.toml"), "") << "three letters of five differ";
  EXPECT_EQ(near("none/tales.toml"), "") << "no such folder";
}

TEST(NearestName, AWordThatIsNoMisspellingGetsTheWholeList) {
  EXPECT_EQ(suggestion("momentum", names), "; known: beta1 beta2 eps weight_decay");
  EXPECT_EQ(suggestion("momentum", {}), "") << "of names of which none is left";
}

}  // namespace
}  // namespace mxtape
