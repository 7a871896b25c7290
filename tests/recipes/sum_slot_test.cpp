// The slot sum.dw: which layers a rule reaches, and what is refused.
#include "recipes/text/precision_table.h"
#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

std::string rule(const std::string& layers, const std::string& slots, const std::string& format) {
  return fmt::format("[[precision.rules]]\nlayers = \"{}\"\n{}format = \"{}\"\n", layers,
                     slots.empty() ? "" : fmt::format("slots = [\"{}\"]\n", slots), format);
}
Recipe with(const std::string& rules, std::int64_t strands = 4, const std::string& model = "") {
  return recipe_from_toml(fmt::format("model.layers = 2\n{}train.strands = {}\n{}", model, strands, rules),
                          "r.toml");
}
std::string refused(const std::string& format, std::int64_t strands = 4) {
  return refusal([&] { validate(with(rule("*", "sum.dw", format), strands)); });
}

TEST(SumSlot, IsReachedByItsNameAloneInEveryLayerThatHasAMatrix) {
  const auto sums = precision_plan(with(rule("*", "sum.dw", "mxfp8_e4m3")), 0).sums;
  EXPECT_EQ(sums.size(), 9u);  // four in each of two blocks, and the embedding, which is the head too
  for (const auto& [layer, q] : sums) EXPECT_EQ(q, mxfp8_e4m3) << layer;
  EXPECT_FALSE(sums.contains("head"));
  EXPECT_TRUE(precision_plan(with("", 4, "model.tied_head = false\n"), 0).sums.contains("head"));
  for (const auto& slots : {"", "*", "*.*"})
    for (const auto& [layer, q] : precision_plan(with(rule("blocks.*", slots, "mxfp4")), 0).sums)
      EXPECT_TRUE(q.is_identity()) << layer << slots;
  EXPECT_EQ(precision_plan(with(rule("embedding", "*.dw", "mxfp4")), 0).sums.at("embedding"), mxfp4);
}

TEST(SumSlot, IsRefusedWhereNothingIsAdded) {
  EXPECT_NE(refused("mxfp8", 1).find("train.strands = 1: no strands are added"), std::string::npos);
  EXPECT_EQ(refused("f32", 1), "");
}

TEST(SumSlot, WantsFormatsThatCanBeCutAndKeepWhatIsNotFinite) {
  for (const char* format : {"mxfp8_e5m2", "mxfp4 round=stochastic", "nvfp4", "bf16 round=stochastic",
                             "mxint8", "mxfp4 block=32x32", "int8 block=32 scale=f32"})
    EXPECT_EQ(refused(format), "") << format;
  EXPECT_NE(refused("mxfp4 block=32x64").find("strips of 32 rows"), std::string::npos);
  for (const char* format : {"e2m1", "int8"})
    EXPECT_NE(refused(format).find("infinite or NaN"), std::string::npos) << format << refused(format);
}

TEST(SumSlot, ThePrecisionTableSaysHowManyBitsTravel) {
  const std::string table = precision_table(with(rule("blocks.*", "sum.dw", "mxfp8_e4m3")));
  EXPECT_NE(table.find("blocks.0-1.*\n  sum.dw       mxfp8, 8.25 of 32 bits travel\n"), std::string::npos)
      << table;
  EXPECT_EQ(precision_table(with("")).find("sum.dw"), std::string::npos);
}

}  // namespace
}  // namespace mxtape
