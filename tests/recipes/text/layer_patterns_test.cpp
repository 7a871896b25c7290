#include "recipes/text/layer_patterns.h"

#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

std::vector<std::string> names_of(std::int64_t blocks) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < blocks; ++i)
    for (const char* part : {"attn", "mlp.up"}) names.push_back(fmt::format("blocks.{}.{}", i, part));
  names.emplace_back("head");
  return names;
}
/// The numbers of the blocks whose MLP the pattern "blocks" + slice + ".mlp.*" names.
std::vector<int> blocks_of(const std::string& slice, std::int64_t blocks) {
  std::vector<int> numbers;
  for (const auto& name :
       LayerNames(names_of(blocks), blocks).matching("blocks" + slice + ".mlp.*", "r.toml:3"))
    numbers.push_back(std::stoi(name.substr(7)));
  return numbers;
}
std::string refused_slice(const std::string& pattern, std::int64_t blocks) {
  return refusal([&] { LayerNames(names_of(blocks), blocks).matching(pattern, "r.toml:3"); });
}

TEST(LayerPatterns, SlicesAreThoseOfPython) {
  EXPECT_EQ(blocks_of("[:2]", 12), (std::vector{0, 1}));
  EXPECT_EQ(blocks_of("[-3:]", 12), (std::vector{9, 10, 11}));
  EXPECT_EQ(blocks_of("[2:-2]", 6), (std::vector{2, 3}));
  EXPECT_EQ(blocks_of("[1:3]", 12), (std::vector{1, 2}));
  EXPECT_EQ(blocks_of("[:]", 3), (std::vector{0, 1, 2}));
  EXPECT_EQ(blocks_of("[:-11]", 12), (std::vector{0}));
}

TEST(LayerPatterns, ASliceOfOneEndsAtItsBlockAndNotAtAllThatBeginAlike) {
  EXPECT_EQ(blocks_of("[1:2]", 12), (std::vector{1})) << "not 10 and 11";
  const auto all = LayerNames(names_of(12), 12).matching("blocks[:1].*|head", "r.toml:3");
  EXPECT_EQ(all, (std::vector<std::string>{"blocks.0.attn", "blocks.0.mlp.up", "head"}));
}

TEST(LayerPatterns, AMessageShowsTheBeginningOfALongPattern) {
  for (const std::string& pattern : {std::string(10'000, 'x'), "blocks[" + std::string(10'000, 'x')}) {
    const std::string message = refusal([&] { LayerNames(names_of(2), 2).matching(pattern, "r.toml:3"); });
    EXPECT_LT(message.size(), 500u) << message;
    EXPECT_TRUE(contains(message, "xxx...'")) << message;
  }
}

TEST(LayerPatterns, AGlobOfManyStarsTakesNoLongerThanItsNames) {
  const std::string stars(100, '*');
  EXPECT_TRUE(matches_glob(stars, "blocks.0.mlp.up"));
  std::string glob;
  for (int i = 0; i < 40; ++i) glob += "*a";
  EXPECT_TRUE(matches_glob(glob, std::string(60, 'a')));
  EXPECT_FALSE(matches_glob(glob + "b", std::string(60, 'a'))) << "C(60, 40) ways to place the letters";
  EXPECT_TRUE(matches_glob("*.w", "fprop.w.w"));
  EXPECT_FALSE(matches_glob("*.w", "fprop.w.x"));
  EXPECT_TRUE(matches_glob("a*b*", "acb"));
  EXPECT_FALSE(matches_glob("a*b*", "bcb"));
}

TEST(LayerPatterns, MoreBlocksThanThereAreAreRefusedAndNotCut) {
  for (const char* pattern : {"blocks[:5].*", "blocks[-5:].*", "head|blocks[-5:2].*"})
    EXPECT_TRUE(
        contains(refused_slice(pattern, 4), "counts more blocks than the model has: model.layers = 4"))
        << refused_slice(pattern, 4);
  EXPECT_EQ(blocks_of("[-4:4]", 4).size(), 4u);
}

TEST(LayerPatterns, AnEmptySliceIsRefused) {
  EXPECT_EQ(refused_slice("blocks[2:-2].*", 4),
            "r.toml:3: 'blocks[2:-2].*' is empty: from block 2 to before block 2 of 4");
  EXPECT_TRUE(contains(refused_slice("blocks[4:].*", 4), "is empty: from block 4 to before block 4"));
}

TEST(LayerPatterns, WhatIsNoSliceIsRefusedWithWhatIsOne) {
  for (const char* pattern : {"blocks[2].*", "blocks[:2", "blocks[a:].*", "blocks[::2].*", "blocks[: 2].*"}) {
    const std::string text = refused_slice(pattern, 4);
    EXPECT_TRUE(
        contains(text, fmt::format("r.toml:3: '{}' is no slice of blocks; want blocks[first:end]", pattern)))
        << text;
  }
}

TEST(LayerPatterns, ABlockThatIsNamedAndNotCountedIsToldHowBlocksAreCounted) {
  const std::string hint = "; the first block is blocks.0, the last one blocks.-1; layers: blocks.0.attn ";
  EXPECT_TRUE(contains(refused_slice("blocks.last.*", 4), "no layer matches 'blocks.last.*'" + hint));
  EXPECT_TRUE(contains(refused_slice("blocks.*.mpl.*", 4), "no layer matches 'blocks.*.mpl.*'; layers: "));
}

TEST(LayerPatterns, NoMessageListsAllLayersOfALargeModel) {
  EXPECT_LT(refused_slice("blocks.*.mpl.*", 400).size(), 1000u);
}

TEST(LayerPatterns, ASliceOfLayersThatBlocksDoNotHaveIsRefused) {
  EXPECT_TRUE(contains(refused_slice("blocks[:2].mpl.*", 4), "no layer matches 'blocks[:2].mpl.*'"));
}

}  // namespace
}  // namespace mxtape
